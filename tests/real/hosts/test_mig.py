"""A card in MIG mode from its driver to a job: a slice is leased, handed over by its UUID and used,
the card never is; and a job whose Paddle cannot use a device says so."""

from __future__ import annotations

from pathlib import Path

from tests.real.rig.hosts import Lab
from tests.real.services.test_road import Desk

SCRIPT = """
import os
import paddle
print("seen", os.environ["NVIDIA_VISIBLE_DEVICES"], sorted(os.listdir("/dev")), flush=True)
net = paddle.nn.Linear(4, 4)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(3):
    net(paddle.ones([2, 4])).sum().backward()
    adam.step()
    adam.clear_grad()
"""


def test_a_job_gets_a_slice_and_says_that_its_paddle_did_not_use_it(
    docker_lab: Lab, tmp_path: Path
) -> None:
    machine = docker_lab.add(devices=1)
    machine.driver.set({"0.mig": 1, "0.slices": "1g.5gb,3g.20gb"})
    engine = machine.start_engine()
    desk = Desk(docker_lab, tmp_path)
    desk.script.write_text(SCRIPT)
    (host,) = desk.json("status")["hosts"]
    card, small, large = host["devices"]
    assert (card["divided"], small["mig_profile"], large["mig_profile"]) == (
        True, "1g.5gb", "3g.20gb",
    )  # fmt: skip
    assert large["parent_uuid"] == card["uuid"]
    engine.set_devices([small["uuid"], large["uuid"]])

    job_id = desk.json("submit", str(desk.script), "--force")["job"]
    assert desk.run("wait", job_id).returncode == 0, desk.run("logs", job_id).stdout
    job = desk.job(job_id)
    (uuid,) = job["devices"]
    assert uuid in (small["uuid"], large["uuid"])
    log = desk.run("logs", job_id).stdout
    place = [small["uuid"], large["uuid"]].index(uuid)
    assert f"seen {uuid}" in log
    assert f"'nvidia{place}'" in log
    assert f"'nvidia{1 - place}'" not in log

    assert "started for gpu, but Paddle" in log
    assert "it is built for cpu" in log
    assert job["state"] == "succeeded"
    assert "Warning: Paddle computed on the processor" in job["cause"]
    assert "built for processors alone" in job["cause"]
