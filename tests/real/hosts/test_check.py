"""`check` on real hosts: each fault is named with its step and a remedy."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.remote.check import HOST_STEPS, SSH_STEPS, HostReport, check
from gpuconsole.remote.check_findings import Finding
from gpuconsole.remote.inventory import Inventory, parse_inventory
from tests.real.rig.hosts import Lab


def finding(report: HostReport, step: str) -> Finding:
    return next(found for found in report.findings if found.step == step)


def inventory(lab: Lab) -> Inventory:
    return parse_inventory(lab.inventory(), "lab")


async def test_a_sound_host_passes_every_step(docker_lab: Lab) -> None:
    host = docker_lab.add(devices=2)
    host.start_engine()
    (report,) = await check(inventory(docker_lab))
    assert report.ok, report
    assert [found.step for found in report.findings] == [*SSH_STEPS, *HOST_STEPS]
    assert {found.step: found.result for found in report.findings} == {
        **dict.fromkeys([*SSH_STEPS, *HOST_STEPS], "ok"),
        "disk": finding(report, "disk").result,
    }
    assert finding(report, "devices").message == "2 x NVIDIA A100-SXM4-40GB"
    document = report.as_json()
    assert document["ok"] is True
    assert document["findings"][0] == {
        "step": "name resolution",
        "result": "ok",
        "message": host.address,
        "remedy": "",
    }


async def test_faults_are_told_apart_and_in_parallel(lab: Lab) -> None:
    lost, closed, driverless, dockerless = (lab.add(devices=2, driver=n != 2) for n in range(4))
    lost.driver.set({"1.lost": 1})
    closed.stop_sshd()
    hosts = inventory(lab)
    unresolved = replace(hosts.hosts[0], name="nowhere", address="no-such-host.invalid")
    reports = {
        report.host: report
        for report in await check(replace(hosts, hosts=(*hosts.hosts, unresolved)))
    }
    assert "GPU 1" in finding(reports[lost.name], "devices").message
    assert finding(reports[closed.name], "tcp").result == "fail"
    assert finding(reports[closed.name], "login").result == "skip"
    assert finding(reports[driverless.name], "driver").result == "fail"
    assert finding(reports[dockerless.name], "devices").result == "ok"
    docker = finding(reports[dockerless.name], "docker")
    assert (docker.result, bool(docker.remedy)) == ("fail", True)
    assert finding(reports[dockerless.name], "gpu runtime").result == "skip"
    assert finding(reports["nowhere"], "name resolution").result == "fail"
    assert not any(report.ok for report in reports.values())


async def test_keys_and_logins_are_told_apart(lab: Lab) -> None:
    host = lab.add()
    entry = inventory(lab).hosts[0]
    stranger = replace(entry, name="stranger", user="nobody-here")
    unknown = replace(entry, name="unknown", known_hosts=lab.root / "empty")
    reports = await check(Inventory("lab", (stranger, unknown)))
    assert finding(reports[0], "host key").result == "ok"
    assert finding(reports[0], "login").result == "fail"
    assert "ssh-copy-id" in finding(reports[0], "login").remedy
    assert finding(reports[1], "host key").result == "fail"
    assert "--trust" in finding(reports[1], "host key").remedy
    assert host.address in finding(reports[1], "host key").message


async def test_a_host_without_python_is_only_warned_about(lab: Lab) -> None:
    smi = "#!/bin/sh\necho index, uuid, name, driver_version\necho 0, GPU-1, T4, 470.1\nsleep 2\n"
    lab.add(python=False, programs={"nvidia-smi": smi})
    (report,) = await check(inventory(lab))
    assert finding(report, "python").result == "warn"
    assert finding(report, "driver").message == "470.1"
    assert finding(report, "disk").result == "skip"
