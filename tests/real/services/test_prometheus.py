"""A real Prometheus scrapes a real console, and the rules that ship are evaluated on it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra `metrics`")

from gpuconsole.session.metrics.collector import most_series
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.prometheus import PROMETHEUS, PROMTOOL, prometheus
from tests.real.rig.sessions import Desk

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason="needs prometheus"),
]
WATCHING = Path(__file__).resolve().parents[3] / "watching"
TOKEN = "a-token-of-24-characters"
QUICK = "lab:\n  triage:\n    limits: {fault_for: 0, unreachable_for: 1, clear_after: 2}\n"


@contextlib.asynccontextmanager
async def console(folder: Path, *words: str) -> AsyncIterator[str]:
    """Run a command that serves metrics; gives what it prints first."""
    environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpuconsole", *words, "--json",
        stdout=asyncio.subprocess.PIPE, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        text = ""
        while not text.rstrip().endswith("}"):
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
            assert line, f"it ended after {text!r}"
            text += line.decode()
        yield str(json.loads(text)["address"])
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0


def config(target: str, token_file: Path | None = None) -> str:
    """Return a configuration that scrapes fast, and with a token once more without it."""
    targets = {"static_configs": [{"targets": [target]}]}
    jobs: list[dict[str, Any]] = [{"job_name": "gpuconsole", **targets}]
    if token_file is not None:
        jobs[0]["authorization"] = {"credentials_file": str(token_file)}
        jobs.append({"job_name": "stranger", **targets})
    return json.dumps(
        {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(WATCHING / "alerts.yaml")],
            "scrape_configs": jobs,
        }
    )


async def test_a_real_prometheus_scrapes_and_alerts(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    words = (
        "metrics", "--demo", "--listen", "127.0.0.1:0", "--token-file", str(token), "--job-labels",
    )  # fmt: skip
    async with console(tmp_path, *words) as address:
        target = address.removeprefix("http://").removesuffix("/metrics")
        async with prometheus(tmp_path, config(target, token)) as prom:

            def scraped(data: Any) -> bool:
                health = {one["labels"]["job"]: one for one in data["activeTargets"]}
                return (
                    len(health) == 2
                    and health["gpuconsole"]["health"] == "up"
                    and health["stranger"]["health"] == "down"
                    and "401" in health["stranger"]["lastError"]
                )

            await prom.until("targets", scraped)
            await _values(prom)
            await _alerts(prom)
            await _dashboard(prom)
        await _conventions(address)


async def _values(prom: Any) -> None:
    (simulated,) = await prom.query("gpuconsole_simulated")
    assert simulated["value"][1] == "1"
    hosts = await prom.query("gpuconsole_host_up")
    assert len(hosts) == 6
    (devices,) = await prom.query("sum(gpuconsole_host_devices)")
    (listed,) = await prom.query("count(gpuconsole_device_up)")
    assert devices["value"][1] == listed["value"][1]
    (share,) = await prom.query(
        "sum(gpuconsole_device_memory_used_bytes) / sum(gpuconsole_device_memory_total_bytes)"
    )
    assert 0.0 < float(share["value"][1]) < 1.0
    running = 'gpuconsole_jobs{state="running"} > 0'
    await prom.until("query", lambda data: bool(data["result"]), query=running)
    # Who draws how much: the labels of jobs, joined as the page shows.
    joined = (
        "gpuconsole_device_job_info * on (host, device) group_left () gpuconsole_device_power_watts"
    )
    found = await prom.until("query", lambda data: bool(data["result"]), query=joined)
    for sample in found["result"]:
        assert sample["metric"]["user"]
        assert sample["metric"]["job_id"] in sample["metric"]["container"]
        assert float(sample["value"][1]) > 0.0
    waited = "histogram_quantile(0.5, gpuconsole_queue_wait_seconds_bucket)"
    (median,) = await prom.query(waited)
    assert float(median["value"][1]) >= 0.0
    (count,) = await prom.query('count({__name__=~"gpuconsole_.*"})')
    assert int(count["value"][1]) <= most_series(6, 40) + 2 * 40


async def _alerts(prom: Any) -> None:
    """One simulated host is out of sight: an incident that is critical, and a link that is down."""

    def fires(data: Any) -> bool:
        return any(
            one["state"] == "firing" and one["labels"]["alertname"] == "GpuconsoleIncident"
            for one in data["alerts"]
        )

    found = await prom.until("alerts", fires)
    lost = {
        one["labels"]["alertname"]: one["labels"]["host"]
        for one in found["alerts"]
        if one["labels"]["alertname"] in ("GpuconsoleIncident", "GpuconsoleHostDown")
    }
    (down,) = await prom.query("gpuconsole_host_up == 0")
    assert lost["GpuconsoleIncident"] == down["metric"]["host"]
    assert lost["GpuconsoleHostDown"] == down["metric"]["host"], "pending: it waits for a minute"
    rules = await prom.ask("rules")
    judged = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len(judged) == sum("alert:" in line for line in _lines("alerts.yaml"))
    assert {rule["health"] for rule in judged} == {"ok"}
    assert not [rule for rule in judged if rule.get("lastError")]


async def _dashboard(prom: Any) -> None:
    """Each query of the dashboard is one that Prometheus understands."""
    asked = set(_expressions(json.loads((WATCHING / "grafana-dashboard.json").read_text())))
    assert len(asked) > 20
    for text in asked:
        await prom.ask("query", query=text.replace("$host", ".*"))
    for text in ("gpuconsole_device_jobs", "gpuconsole_jobs", "gpuconsole_incidents"):
        assert await prom.query(text), text


async def _conventions(address: str) -> None:
    """`promtool check metrics` complains of names that Prometheus would not choose."""
    bearing = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})

    def check() -> subprocess.CompletedProcess[bytes]:
        with urllib.request.urlopen(bearing, timeout=PATIENCE_S) as answer:
            words = [str(PROMTOOL), "check", "metrics"]
            return subprocess.run(words, input=answer.read(), capture_output=True)

    done = await asyncio.to_thread(check)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_faults_of_real_hosts_reach_prometheus(lab: Lab, tmp_path: Path) -> None:
    """A dispatcher, over SSH, with the agent and a driver that says what the test wants."""
    host, other = lab.add(devices=2), lab.add(devices=1)
    host.driver.set({"0.util": 37})
    desk = Desk(lab, tmp_path / "desk", QUICK)
    process = await asyncio.create_subprocess_exec(
        *desk.command("dispatch", "--metrics", "127.0.0.1:0"),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        target = ""
        while not target:
            line = (await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)).decode()
            assert line, "it ended"
            found = re.search(r"http://(\S+)/metrics", line)
            target = found.group(1) if found else ""
        async with prometheus(tmp_path, config(target)) as prom:
            own = f'{{host="{host.name}",device="0"}}'
            await prom.until(
                "query", _is("0.37"), query=f"gpuconsole_device_utilization_ratio{own}"
            )
            await prom.until("query", _is("1"), query="gpuconsole_dispatcher_up")
            await prom.until("query", _is("0"), query="gpuconsole_simulated")
            await prom.until("query", _is("2"), query="sum(gpuconsole_host_up)")
            (info,) = await prom.query(f"gpuconsole_device_info{own}")
            assert info["metric"]["uuid"] == host.uuids[0]

            host.driver.set({"1.lost": 1})
            other.cut()
            lost = ("GpuconsoleDeviceLost", host.name, "firing")
            # It waits for a minute before it fires; promtool passes that time below.
            down = ("GpuconsoleHostDown", other.name, "pending")
            both = await prom.until("alerts", lambda data: {lost, down} <= _alerting(data))
            (one,) = (a for a in both["alerts"] if a["labels"]["alertname"] == lost[0])
            assert one["labels"]["device"] == "1"
            counted = f'gpuconsole_host_link_losses_total{{host="{other.name}"}}'
            await prom.until("query", _is("1"), query=counted)
            assert not await prom.query(f'gpuconsole_device_up{{host="{other.name}"}}')

            other.heal()
            host.driver.set({"1.lost": 0})
            await prom.until("alerts", lambda data: not {lost, down} & _alerting(data))
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0


def _is(value: str) -> Callable[[Any], bool]:
    return lambda data: [one["value"][1] for one in data["result"]] == [value]


def _alerting(data: Any) -> set[tuple[str, str, str]]:
    return {
        (one["labels"]["alertname"], one["labels"].get("host", ""), one["state"])
        for one in data["alerts"]
    }


@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", str(WATCHING / "alerts.yaml")),
        ("check", "config", str(WATCHING / "prometheus.yml")),
        ("test", "rules", str(Path(__file__).parent / "prometheus" / "alerts-test.yaml")),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_promtool_is_content(words: tuple[str, ...]) -> None:
    done = subprocess.run([str(PROMTOOL), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _lines(file: str) -> list[str]:
    return (WATCHING / file).read_text(encoding="utf-8").splitlines()


def _expressions(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("expr"), str):
            yield part["expr"]
        for value in part.values():
            yield from _expressions(value)
    elif isinstance(part, list):
        for value in part:
            yield from _expressions(value)
