"""The filter grammar: what matches, and where a mistake is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.filters import FIELDS, FIGURES, FilterError, free_devices, parse
from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from tests.scripts import script

DOCS = Path(__file__).resolve().parents[2] / "docs" / "filters.md"

TRAIN = DeviceProcess(1, "ana", 30000, "python Train.py --lr 1", "3f2a" * 16)
BUSY = Device("a", 0, "NVIDIA A100-SXM4-40GB", memory_total_mib=40960, memory_used_mib=30720,
              utilization=90, temperature_c=70, power_w=300,
              throttle=("sw-thermal",), processes=(TRAIN,))  # fmt: skip
IDLE = Device("b", 1, "NVIDIA A100-SXM4-40GB", memory_total_mib=40960, memory_used_mib=0,
              utilization=0, temperature_c=30, power_w=50)  # fmt: skip
CARD = Device("c", 0, "NVIDIA GeForce RTX 3090", memory_total_mib=24576)
LAB = (
    Host("a100-01", HostState.UP, labels={"rack": "r1"}, devices=(BUSY, IDLE)),
    Host(
        "rtx 7",
        HostState.UP,
        labels={"rack": "r2"},
        devices=(CARD,),
        drained="drained by bo: new fans",
    ),
    Host("gone", HostState.DOWN, labels={"rack": "r2"}),
)


def matching(text: str, users: dict[str, str] | None = None) -> dict[str, list[str]]:
    """Host name to the UUIDs that match."""
    wanted = parse(text, "Ana")
    found = ((host.name, wanted.devices(host, users or {})) for host in LAB)
    return {name: [d.uuid for d in devices] for name, devices in found if devices is not None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"a100-01": ["a", "b"], "rtx 7": ["c"], "gone": []}),
        ("a100", {"a100-01": ["a", "b"]}),
        ("rack:r2", {"rtx 7": ["c"], "gone": []}),
        ("r2", {"rtx 7": ["c"], "gone": []}),
        ("r", {"rtx 7": ["c"]}),
        ("host:gone", {"gone": []}),
        ("host:gon", {}),
        ("gpu:3090", {"rtx 7": ["c"]}),
        ("util<20", {"a100-01": ["b"]}),
        ("util>=90 mem>50", {"a100-01": ["a"]}),
        ("util<20 mem>50", {}),
        ("temp>60", {"a100-01": ["a"]}),
        ("power=50", {"a100-01": ["b"]}),
        ("mem>50%", {"a100-01": ["a"]}),
        ("free>=1", {"a100-01": ["a", "b"], "rtx 7": ["c"]}),
        ("gpus>=2", {"a100-01": ["a", "b"]}),
        ("state:down", {"gone": []}),
        ("!state:down", {"a100-01": ["a", "b"], "rtx 7": ["c"]}),
        ("user:ana", {"a100-01": ["a"]}),
        ("!user:ana gpu:a100", {"a100-01": ["b"]}),
        ('"rtx 7"', {"rtx 7": ["c"]}),
        ('!"rtx 7" !gone', {"a100-01": ["a", "b"]}),
        ("RACK:R1 A100", {"a100-01": ["a", "b"]}),
        ("gpu:3090|a100 util<20", {"a100-01": ["b"]}),
        ('a100|"rtx 7"', {"a100-01": ["a", "b"], "rtx 7": ["c"]}),
        ("!gpu:a100|3090", {}),
        ("rack:r2|r9 !state:down", {"rtx 7": ["c"]}),
        ("user:me", {"a100-01": ["a"]}),
        ("!user:me gpu:a100", {"a100-01": ["b"]}),
        ("process:train", {"a100-01": ["a"]}),
        ('process:"train.py --lr|x"', {}),
        ("container:3f2a", {"a100-01": ["a"]}),
        ("container:f2a", {}),
        ("freemem>=40", {"a100-01": ["b"]}),
        ("freemem<16GiB", {"a100-01": ["a"]}),
        ("vram>=40 util<50", {"a100-01": ["b"]}),
        ("temp>60C power>200W", {"a100-01": ["a"]}),
        ("state:free", {"a100-01": ["b"], "rtx 7": ["c"]}),
        ("state:busy", {"a100-01": ["a"]}),
        ("state:throttled|down", {"a100-01": ["a"]}),
        ("state:drained", {"rtx 7": ["c"]}),
        ("state:fault", {}),
    ],
)
def test_matches(text: str, expected: dict[str, list[str]]) -> None:
    assert matching(text) == expected


def test_the_owner_of_a_job_counts_as_user() -> None:
    assert matching("user:bo", {"b": "bo"}) == {"a100-01": ["b"]}


@pytest.mark.parametrize(
    ("text", "column", "length", "message"),
    [
        ("a100 speed>3", 5, 5, f"`speed` is no figure; known: {', '.join(FIGURES)}."),
        ("util<", 5, 1, "`util<` needs a number."),
        ("util<fast", 5, 4, "`util<` needs a number."),
        ("rack:", 0, 5, "`rack:` needs a word on both sides of the colon."),
        ("x !:a", 3, 2, "`:a` needs a word on both sides of the colon."),
        ("x !", 2, 1, "Something must follow `!`."),
        ('name "open', 5, 1, "A quote is not closed."),
        ('"a" "b" "', 8, 1, "A quote is not closed."),
        ("gpu:a100|", 4, 5, "A word is missing beside `|`."),
        ("a|!|b |", 6, 1, "A word is missing beside `|`."),
        ("freemem:24", 0, 10, "`freemem` is a figure: `freemem>24`, `freemem<24`."),
        ("util<20x", 5, 3, "`util<` needs a number."),
    ],
)
def test_a_mistake_has_a_place(text: str, column: int, length: int, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert (caught.value.column, caught.value.length) == (column, length)
    assert caught.value.message == message


@pytest.mark.parametrize("figure", [19.0, 20.0, 21.0])
@pytest.mark.parametrize("field", ["util", "temp", "power", "prio"])
def test_a_figure_is_compared_at_its_limit(field: str, figure: float) -> None:
    device = replace(IDLE, utilization=figure, temperature_c=figure, power_w=figure)
    host = Host("h", HostState.UP, devices=(device,))
    job = Job("j", Task("t", priority=int(figure)), "ana", JobState.QUEUED, 0.0)
    signs = {"<": figure < 20, "<=": figure <= 20, "=": figure == 20, ">=": figure >= 20}
    for sign, holds in (*signs.items(), (">", figure > 20)):
        for text, expected in ((f"{field}{sign}20", holds), (f"!{field}{sign}20", not holds)):
            asked = parse(text)
            found = asked.job(job) if field == "prio" else asked.devices(host, {}) is not None
            assert found is expected, text


def test_free_counts_healthy_unused_devices() -> None:
    assert free_devices(LAB[0]) == 1
    lost = Host("h", HostState.UP, devices=(Device("x", 0, "m", lost=True),))
    assert free_devices(lost) == 0
    down = Host("h", HostState.DOWN, devices=(IDLE,))
    assert free_devices(down) == 0


def test_jobs_are_filtered_by_the_same_grammar() -> None:
    task = Task("bert-base", devices=2, priority=5)
    job = Job("abc123", task, "ana", JobState.RUNNING, 0.0,
              attempts=(Attempt(1, "a100-01"),))  # fmt: skip
    for text in ("bert", "abc", "state:run", "user:ana", "host:a100", "prio>4 gpus=2", "!vit"):
        assert parse(text).job(job), text
    for text in ("vit", "state:queued", "user:bo", "prio>5", "!bert"):
        assert not parse(text).job(job), text


def test_the_page_names_every_field_and_its_examples_can_be_read() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert page == script(DOCS.with_name("tables.py")).filters_page(), (
        "stale; run python docs/generate.py"
    )
    for field in FIELDS:
        assert field.name in page
        (term,) = parse(field.example).terms
        assert term.key == field.name
        assert (term.operator == ":") == (field.sign == ":")
