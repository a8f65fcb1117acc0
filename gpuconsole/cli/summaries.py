"""What `gpuconsole --help` says of each command, known without importing it.

Written by `docs/generate.py` from the commands themselves; do not edit by hand.
"""

from collections.abc import Mapping

SUMMARIES: Mapping[str, str] = {
    "init": "Write an inventory from your ssh config, or one to fill in.",
    "check": "Test every host, or those named, and say what to fix.",
    "status": "Show one picture of the fleet.",
    "doctor": "Test this machine: terminal, SSH keys, sandbox, Paddle, files.",
    "calibrate": "Measure what a Paddle process costs on a host's card.",
    "drain": "Let no new job start on a host; running jobs continue.",
    "undrain": "Let jobs start on a drained host, or one set aside, again.",
    "record": "Record the fleet into one file that can be sent to a colleague.",
    "replay": "Show a recording on the console's screens.",
    "incidents": "Show what is wrong in the lab, or one incident with its evidence.",
    "image": "List, pull, pin, check and copy the images of hosts.",
    "preflight": "Predict a Paddle script's memory: where it fits, with which batch.",
    "submit": "Queue a script to run in a container where it fits.",
    "what-if": "Say when waiting jobs would start after a CHANGE.",
    "simulate": "Simulate a trace of jobs on a lab, under one policy or several.",
    "learn": "Train the policy rl_based on past jobs and judge it.",
    "jobs": "List the queue, or one job, or the jobs of one sweep.",
    "logs": "Print the log of a job's latest attempt.",
    "wait": "Wait for the end of a job or a sweep; exit 0 if all succeeded.",
    "why": "Explain why a job is where it is, and what would help.",
    "cancel": "End a job or a sweep: SIGTERM, a grace time, SIGKILL.",
    "preempt": "Stop a running job; it resumes later from its checkpoint.",
    "retry": "Queue an ended job again, or what did not succeed of a sweep.",
    "hold": "Keep a queued job or sweep from starting; release a held one.",
    "release": "Release a held job, or those of a sweep, into the queue.",
    "priority": "Change the priority of a waiting job or sweep; higher is first.",
    "fetch": "Copy a job's results folder here.",
    "prune": "Remove what ended jobs left on reachable hosts; results stay.",
    "forward": "Reach a port of a running job: TensorBoard, a web page, an API.",
    "report": "Show device-hours, use, energy and cost of jobs.",
    "audit": "Show the requests to the lab's queue, also those refused.",
    "notify": "Show how you are notified about your jobs, or send a test message.",
    "takeover": "Make the standby head on this host lead the lab's queue.",
    "render": "Print how another engine would run a job.",
    "journal": "Check the journal of the queue, list its backups or restore one.",
    "dispatch": "Start and follow queued jobs until SIGTERM.",
    "serve": "Serve the console to browsers on this machine.",
    "metrics": "Serve metrics of hosts, queue and predictions to Prometheus.",
    "demo": "Open the console on a simulated lab.",
    "completion": "Print a script for completion in your shell.",
}
