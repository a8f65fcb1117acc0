"""Preflight through the session: analysed once per script, asked of the fleet as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole import preflight
from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.projects import project_of
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.estimate.preflight_runner import Preflights
from gpuconsole.session.reading.analyses import Analyses
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.process import Limits
from gpuconsole.session.submit.pack import pack_project
from gpuconsole.session.submit.validate import refuse_hopeless

SCRIPT = """
import paddle
from paddle import nn
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10))
optimizer = paddle.optimizer.Adam(parameters=model.parameters())
for step in range(10):
    x = paddle.randn([64, 1024])
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def fleet(total: float, used: float) -> FleetSnapshot:
    device = Device("GPU-0", 0, "A100", memory_total_mib=total, memory_used_mib=used)
    return FleetSnapshot(1, 1.0, (Host("a", HostState.UP, devices=(device,)),))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def preflights() -> Iterator[Preflights]:
    with AsyncReader() as reader:
        yield Preflights(reader)


async def test_no_verdict_is_about_a_device_that_the_labels_exclude(
    script: Path, preflights: Preflights
) -> None:
    cards = [Device(f"GPU-{at}", 0, model, memory_total_mib=40960.0, memory_used_mib=0.0)
             for at, model in enumerate(("A100", "T4"))]  # fmt: skip
    hosts = (Host("a", HostState.UP, labels={"pool": "train"}, devices=(cards[0],)),
             Host("b", HostState.UP, labels={"pool": "serve"}, devices=(cards[1],)))  # fmt: skip
    snapshot = FleetSnapshot(1, 1.0, hosts)
    task = Task("train", str(script))
    for labels, models in (({}, ["A100", "T4"]), ({"pool": "serve"}, ["T4"]),
                           ({"pool": "none"}, ["A100", "T4"])):  # fmt: skip
        wanted = replace(task, labels=labels)
        report = await preflights.report(wanted, snapshot, LabSettings())
        assert [one.device for one in report.verdicts] == models
    without = replace(task, anti_labels={"pool": "serve"})
    report = await preflights.report(without, snapshot, LabSettings())
    assert [one.device for one in report.verdicts] == ["A100"]


def test_a_script_is_analysed_again_only_when_something_changed(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[tuple[str, ...]] = []
    real = preflight.analyse

    def counted(path: Path, args: tuple[str, ...] = (), **options: object) -> preflight.Analysis:
        analysed.append(args)
        return real(path, args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(preflight, "analyse", counted)
    analyses, task = Analyses(), Task("x", script=str(script))
    assert analyses.of(task) is analyses.of(task)
    assert len(analysed) == 1
    analyses.of(replace(task, args=("--x", "1")))
    script.write_text(SCRIPT + "\n")
    analyses.of(task)
    (script.parent / "model.py").write_text("")
    analyses.of(task)
    assert len(analysed) == 4


async def test_a_task_is_held_against_the_fleet_as_it_is(
    script: Path, preflights: Preflights
) -> None:
    task, settings = Task("x", script=str(script)), LabSettings()
    first = await preflights.report(task, fleet(40960.0, 0.0), settings)
    again = await preflights.report(task, fleet(40960.0, 40000.0), settings)
    assert first.estimate.memory == again.estimate.memory
    assert [verdict.verdict for verdict in first.verdicts] == ["fits"]
    assert [verdict.verdict for verdict in again.verdicts] == ["will-not-fit"]


async def test_only_what_never_fits_is_refused(script: Path, preflights: Preflights) -> None:
    settings = LabSettings()
    task = Task("x", script=str(script))
    busy = await preflights.report(task, fleet(40960.0, 40000.0), settings, empty=True)
    refuse_hopeless(task, busy)
    small = await preflights.report(task, fleet(512.0, 0.0), settings, empty=True)
    with pytest.raises(RefusedError, match="will not fit") as refused:
        refuse_hopeless(task, small)
    assert refused.value.exit_code == 1


async def test_an_empty_fleet_is_one_device_of_each_kind(
    script: Path, preflights: Preflights
) -> None:
    hosts = tuple(
        Host(
            f"h{number}",
            HostState.UP,
            devices=tuple(
                Device(
                    f"GPU-{number}-{index}", index, "A100" if number % 2 else "V100",
                    memory_total_mib=40960.0 if number % 2 else 32768.0,
                    memory_used_mib=100.0 * number + index,
                )
                for index in range(8)
            ),
        )
        for number in range(50)
    )  # fmt: skip
    picture = FleetSnapshot(1, 1.0, hosts)
    task = Task("x", script=str(script))
    report = await preflights.report(task, picture, LabSettings(), empty=True)
    assert [(one.device, one.host, one.uuid) for one in report.verdicts] == [
        ("V100", "h0", ""), ("A100", "h1", ""),
    ]  # fmt: skip
    assert len(str(report.as_json())) < 5000


async def test_what_fits_only_another_back_end_is_refused(
    script: Path, preflights: Preflights
) -> None:
    small = Device("GPU-0", 0, "T4", memory_total_mib=512.0)
    large = Device("NPU-0", 0, "Ascend 910", backend="npu", memory_total_mib=65536.0)
    picture = FleetSnapshot(1, 1.0, (Host("a", HostState.UP, devices=(small, large)),))
    task, settings = Task("x", script=str(script)), LabSettings()
    with pytest.raises(RefusedError, match="T4 of a"):
        refuse_hopeless(task, await preflights.report(task, picture, settings, empty=True))
    task = replace(task, backend="npu")
    refuse_hopeless(task, await preflights.report(task, picture, settings, empty=True))


async def test_tiers_and_scripts_that_are_not_there(
    script: Path, tmp_path: Path, preflights: Preflights
) -> None:
    settings = LabSettings()
    with pytest.raises(RefusedError, match="guessed"):
        await preflights.report(Task("x", script=str(script)), fleet(1.0, 0.0), settings, "guessed")
    with pytest.raises(UsageError):
        await preflights.report(
            Task("x", script=str(tmp_path / "none.py")), fleet(1.0, 0.0), settings
        )


async def test_what_fits_when_sharding_divides_it_is_not_refused(
    script: Path, preflights: Preflights
) -> None:
    task = Task("x", script=str(script))
    settings = LabSettings()
    first = await preflights.report(task, fleet(512.0, 0.0), settings, empty=True)
    memory = first.estimate.memory
    assert memory is not None
    assert memory.optimizer_mib > 10
    picture = fleet((memory.high_mib - memory.optimizer_mib / 4) / 0.85, 0.0)
    report = await preflights.report(task, picture, settings, empty=True)
    for hopeless in (task, replace(task, distributed_strategy="ddp", devices=8)):
        with pytest.raises(RefusedError, match="will not fit"):
            refuse_hopeless(hopeless, report)
    refuse_hopeless(replace(task, distributed_strategy="sharding", devices=2), report)
    refuse_hopeless(replace(task, distributed_strategy="sharding", devices=None), report)


@pytest.mark.parametrize("ended", [False, True])
async def test_this_process_parses_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    (tmp_path / "suite").mkdir()
    script = tmp_path / "tools" / "train.py"
    script.parent.mkdir()
    script.write_text(f"import suite\n{SCRIPT}")
    parsed: list[str] = []

    def noted(text: str | bytes, *args: Any, **options: Any) -> Any:
        parsed.append(str(text))
        return parse(text, *args, **options)

    parse = ast.parse
    monkeypatch.setattr(ast, "parse", noted)
    monkeypatch.chdir(tmp_path)
    task = Task("x", script=str(script), assumptions={})
    with AsyncReader(Limits(wall_s=0.0) if ended else None) as reader:
        found = await Preflights(reader, tmp_path / "state").report(
            task, fleet(40960.0, 0.0), LabSettings()
        )
    assert (found.estimate.memory is None) == ended
    pack_project(task, tmp_path / "packed.tar.gz", 16.0)
    assert project_of(script, (), tmp_path) == tmp_path
    assert not [text for text in parsed if "import suite" in text]
