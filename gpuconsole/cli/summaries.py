"""What `gpuconsole --help` says of each command, known without importing it.

Written by `docs/generate.py` from the commands themselves; do not edit by hand.
"""

from collections.abc import Mapping

SUMMARIES: Mapping[str, str] = {
    "init": "Write an inventory from your ssh config.",
    "check": "Test every host, or those named, and say what to fix.",
    "status": "Show one picture of the fleet.",
    "calibrate": "Measure what a Paddle process costs on a host's card.",
    "drain": "Let no new job start on a host; what runs there goes on.",
    "undrain": "Let jobs start on a drained host, or one set aside, again.",
    "record": "Record the fleet into one file that can be sent to a colleague.",
    "replay": "Look at a recording with the console's own screens.",
    "incidents": "Show what is wrong in the lab, or one incident with its evidence.",
    "image": "Look at the images of hosts, fetch, pin, check and copy them.",
    "preflight": "Predict a Paddle script's memory: where it fits, with which batch.",
    "submit": "Queue a script to run in a container where it fits.",
    "what-if": "Say when waiting jobs would start after a CHANGE.",
    "simulate": "Play a trace of jobs on a lab, under one policy or several.",
    "learn": "Train the policy rl_based on past jobs and judge it.",
    "jobs": "List the queue, or one job, or the jobs of one sweep.",
    "logs": "Print the log of a job's latest attempt.",
    "wait": "Wait for the end of a job or a sweep; exit 0 if all succeeded.",
    "why": "Say why a job stands where it does, and what would help.",
    "cancel": "End a job or a sweep: SIGTERM, a grace time, SIGKILL.",
    "preempt": "Stop a running job; it goes on later from its checkpoint.",
    "retry": "Queue an ended job again, or what did not succeed of a sweep.",
    "hold": "Keep a queued job or sweep from starting; release a held one.",
    "release": "Let a held job, or those of a sweep, join the queue again.",
    "priority": "Change the priority of a waiting job or sweep; higher is first.",
    "fetch": "Copy a job's results folder here.",
    "prune": "Clear on every reachable host what ended jobs left; results stay.",
    "audit": "Show who asked what of the lab's queue, and what was refused.",
    "render": "Print what would run a job with another engine.",
    "journal": "Check the journal of the queue, list its backups, restore one.",
    "dispatch": "Start and follow queued jobs until SIGTERM.",
    "serve": "Serve the console to browsers on this machine.",
    "metrics": "Serve metrics of hosts, queue and predictions to Prometheus.",
    "demo": "Open the console on a simulated lab.",
    "completion": "Print what makes a shell complete gpuconsole.",
}
