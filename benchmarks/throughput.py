"""What queueing and short jobs cost, on one real host with two stand-in devices.

    python -m benchmarks.throughput               everything; as root on Debian
    python -m benchmarks.throughput --jobs 100    more short jobs

Measured as processor time of the whole command, and as finished jobs a minute. Beside it stands
what the same engine does with the same containers when they are started by hand through the
Docker API, two at a time: no queue, no code put in, no log kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.installed import environment
from tests.real.rig import docker, hosts, image, nvml
from tests.real.rig.docker import LabDocker
from tests.real.rig.sessions import Desk

SHORT = "import time\ntime.sleep(0.5)\n"
SWEPT = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.parse_args()
"""
AT_ONCE = 2
LIMIT_S = 900.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=40, help="short jobs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    reason = hosts.why_not() or nvml.why_not() or docker.why_not() or image.why_no_paddle()
    if reason:
        print(f"Not measured: {reason}.")
        return 2
    with hosts.lab() as lab, tempfile.TemporaryDirectory() as folder:
        host = lab.add(devices=AT_ONCE)
        engine = host.start_engine()
        desk = Desk(lab, Path(folder))
        figures = {
            **_submitting(desk),
            **_dispatching(desk, options.jobs),
            "by hand, jobs a minute": _by_hand(engine, options.jobs),
        }
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"load of the machine now {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        for name, figure in figures.items():
            print(f"{name:<52} {figure:8.2f}")
    return 0


def _submitting(desk: Desk) -> dict[str, float]:
    """Processor seconds of `submit`: of one job, and of a sweep of a thousand."""
    swept = str(desk.script(SWEPT, "swept.py"))
    one = desk.command("submit", "--force", "--hold", swept)
    _cpu_s(one)
    return {
        "submit one job, CPU s": min(_cpu_s(one) for _ in range(5)),
        "submit a sweep of 1,000, CPU s": _cpu_s([*one[:-1], "--sweep", "seed=1..1000", swept]),
    }


def _cpu_s(command: Sequence[str]) -> float:
    compiled = environment()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=compiled
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _dispatching(desk: Desk, jobs: int) -> dict[str, float]:
    """Short jobs to their end by `dispatch`: how many a minute, and what each costs it."""
    script = str(desk.script(SHORT, "short.py"))
    submit = desk.command("submit", "--force", "--sweep", f"x=1..{jobs}", script)
    answer = json.loads(subprocess.check_output([*submit, "--json"], stderr=subprocess.DEVNULL))
    swept = {job["job"] for job in answer["jobs"]}
    with desk.journal() as journal:
        dispatcher = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
        try:
            began_cpu, began, done = 0.0, 0.0, 0
            end = time.monotonic() + LIMIT_S
            while done < jobs and time.monotonic() < end:
                done = sum(job.state.ended for job in journal.jobs() if job.id in swept)
                if done and not began:
                    began, began_cpu, first = time.monotonic(), _own_cpu_s(dispatcher.pid), done
                time.sleep(0.1)
            took = time.monotonic() - began
            cpu = _own_cpu_s(dispatcher.pid) - began_cpu
        finally:
            dispatcher.terminate()
            dispatcher.wait(60)
    counted = done - first
    return {
        "jobs of 0.5 s on two devices, a minute": counted * 60 / took,
        "a dispatcher's CPU s for each of them": cpu / counted,
    }


def _own_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _by_hand(engine: LabDocker, jobs: int) -> float:
    """The same containers through the Docker API alone; finished a minute."""
    client = engine.client()

    def run(_: int) -> None:
        made = client.create_container(image.PADDLE_IMAGE, ["python", "-c", SHORT])
        client.start(made["Id"])
        client.wait(made["Id"])
        client.remove_container(made["Id"])

    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(run, range(jobs)))
    return jobs * 60 / (time.monotonic() - began)


if __name__ == "__main__":
    raise SystemExit(main())
