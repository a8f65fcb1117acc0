"""What a page shows: the commands' words as elements, and nothing that foreign words could draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuconsole.cli.output import table, text
from gpuconsole.cli.views import fleet
from gpuconsole.core.estimate import (
    Ask,
    Estimate,
    Memory,
    Report,
    ScriptFault,
    Suggestion,
    Unknown,
    Verdict,
)
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.errors import ConsoleError, UsageError
from gpuconsole.notebook.html import Markup, drawn, lines, tag
from gpuconsole.notebook.magics import Magic, ShownError, load, unload
from gpuconsole.notebook.views import View, job_view, plain_view, report_view
from tests.api.test_public import SCRIPT

HOSTILE = "\x1b[2J<script>alert(1)</script>\u202e\"onload='x'&amp;"
SHOWN = "<script>alert(1)</script>\"onload='x'&amp;"
MEMORY = Memory(
    parameters_mib=1024.0, gradients_mib=1024.0, optimizer_mib=2048.0, activations_mib=4096.0,
    inputs_mib=64.0, workspace_mib=0.01, tensors_peak_mib=8256.0, reserved_mib=8704.0,
    context_mib=600.0, total_mib=9304.0, low_mib=8000.0, high_mib=10240.0,
)  # fmt: skip
ESTIMATE = Estimate("train.py", 32, None, "gpu", "static", 0.97, MEMORY, notes=("It was read.",))
VERDICT = Verdict("A100", "a", "gpu", "will-not-fit", -9.0, 12, 0.99, limit_mib=6144.0)
JOB = Job("2pz", Task("mine"), "ann", JobState.RUNNING, 1.0, estimate_mib=512.0)


class Page(HTMLParser):
    """A page as a browser reads it: names of its elements, attributes, and its text."""

    def __init__(self, view: View | Markup) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()
        self.titles: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(view.html if isinstance(view, View) else view)
        assert not self.open, "an element without an end"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "|"


def test_an_answer_has_verdicts_parts_and_what_would_help() -> None:
    better = Suggestion("batch-size", 12, "Reduce the batch size to 12.", 100.0, costs="more steps")
    page = Page(report_view(Report(ESTIMATE, (VERDICT,), (better,)), simulated=False))
    assert "WILL NOT FIT" in page.text
    assert "will not fit|" in page.text
    assert "A100" in page.text
    assert "Reduce the batch size to 12." in page.text
    assert "It was read." in page.text
    assert "activations 4.0 GiB|" in page.text
    assert "may be used: 6.0 GiB" in page.titles
    assert "upper bound: 936 MiB" in page.titles
    assert "SIMULATED" not in page.text
    assert page.names.count("table") == 1


def test_what_is_unknown_or_wrong_says_so_and_draws_no_bar() -> None:
    blind = replace(
        ESTIMATE, memory=None, tier="unknown", unknowns=(Unknown("train.py", 3, "a file"),),
        asks=(Ask("width", "train.py", 3, "What is width?", "128"),),
    )  # fmt: skip
    page = Page(report_view(Report(blind), simulated=True))
    assert "UNKNOWN" in page.text
    assert "train.py:3: a file" in page.text
    assert "--assume 'width=128'" in page.text
    assert "SIMULATED" in page.text
    assert not page.titles
    fault = ScriptFault("train.py", 9, "Shapes do not go together.", ((2, 3), (4, 5)))
    wrong = Page(report_view(Report(replace(ESTIMATE, errors=(fault,)), (VERDICT,)), False))
    assert "WILL FAIL" in wrong.text
    assert "[2, 3] and [4, 5]" in wrong.text
    assert "table" not in wrong.names


def hostile_views() -> dict[str, View]:
    estimate = replace(
        ESTIMATE, script=HOSTILE, notes=(HOSTILE,), unknowns=(Unknown(HOSTILE, 1, HOSTILE),),
        asks=(Ask(HOSTILE, HOSTILE, 1, HOSTILE, HOSTILE),), flags=(HOSTILE,),
    )  # fmt: skip
    verdict = replace(VERDICT, device=HOSTILE, host=HOSTILE, reason=HOSTILE)
    better = Suggestion("amp", HOSTILE, HOSTILE, 1.0, costs=HOSTILE, args=(HOSTILE,))
    attempt = Attempt(1, HOSTILE, ("GPU-1",), (0,), peak_mib=3.0)
    job = replace(JOB, task=Task(HOSTILE), cause=HOSTILE, attempts=(attempt,), user=HOSTILE)
    host = Host(HOSTILE, HostState.UP, devices=(Device("u", 0, HOSTILE),), error=HOSTILE)
    return {
        "report": report_view(Report(estimate, (verdict,), (better,)), simulated=False),
        "job": job_view(job, (HOSTILE,), simulated=False),
        "jobs": plain_view([fleet.jobs([job], 5.0)]),
        "status": plain_view(fleet.fleet(FleetSnapshot(hosts=(host,)), 5.0)),
    }


@pytest.mark.parametrize("name", hostile_views())
def test_foreign_words_are_words(name: str) -> None:
    view = hostile_views()[name]
    page = Page(view)
    assert "script" not in page.names
    assert page.attributes <= {"style", "title"}
    assert SHOWN in page.text
    assert "\x1b" not in view.html + view.plain
    assert "\u202e" not in view.html + view.plain


def test_attributes_cannot_be_left() -> None:
    page = Page(tag("div", title=HOSTILE))
    assert page.titles == [SHOWN]
    assert page.attributes == {"title"}


def test_a_table_keeps_its_rows_columns_and_sides() -> None:
    shown = table("NAME", "SIZE", right=("SIZE",))
    shown.add_row(text("a"), text("1", "red"))
    shown.add_row(text("b"), text("2"))
    html = drawn(shown)
    assert Page(html).text == "NAME|SIZE|a|1|b|2|"
    assert html.count("text-align:right") == 3
    assert "color:" in html


def test_a_log_is_a_block_of_lines() -> None:
    assert Page(lines(["one <1>", "two"])).text == "one <1>\ntwo|"


def test_a_job_shows_its_state_its_memory_and_its_log() -> None:
    done = replace(JOB, attempts=(Attempt(1, "a", peak_mib=400.0, started_at=2.0),))
    page = Page(job_view(done, ("step 1",), simulated=True))
    for words in ("SIMULATED", "2pz (mine) running", "estimate 512 MiB", "peak 400 MiB", "step 1"):
        assert words in page.text


class Shell:
    """As much of a shell as the magics ask for; without a kernel, like IPython in a terminal."""

    def __init__(self) -> None:
        self.magics_manager = self
        self.magics: dict[str, dict[str, Callable[..., None]]] = {"line": {}, "cell": {}}
        self.hooks: dict[str, Callable[..., list[str]]] = {}

    def register_magic_function(
        self, magic: Callable[..., None], magic_kind: str, magic_name: str
    ) -> None:
        assert magic_kind == "line_cell"
        for kind in ("line", "cell"):
            self.magics[kind][magic_name] = magic

    def set_hook(self, name: str, hook: Callable[..., list[str]], str_key: str) -> None:
        assert name == "complete_command"
        self.hooks[str_key] = hook

    def find_line_magic(self, name: str) -> Callable[..., None] | None:
        return self.magics["line"].get(name)


def test_the_magic_is_loaded_once_and_taken_away() -> None:
    shell = Shell()
    load(shell)
    first = shell.magics["line"]["gpuconsole"]
    load(shell)
    assert shell.magics["cell"]["gpuconsole"] is first
    line = SimpleNamespace(line="%gpuconsole jo", text_until_cursor="%gpuconsole jo", symbol="jo")
    assert shell.hooks["%gpuconsole"](shell, line) == ["jobs"]
    unload(shell)
    unload(shell)
    assert shell.magics == {"line": {}, "cell": {}}
    # A shell keeps its hooks for ever.
    assert shell.hooks["%gpuconsole"](shell, line) == []


def test_words_and_mistakes_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    magic = Magic(Shell())
    magic("")
    assert "%gpuconsole [OPTIONS] COMMAND" in capsys.readouterr().out
    magic("--help", "x = 1")
    assert "--submit" in capsys.readouterr().out
    with pytest.raises(ShownError, match="No such command"):
        magic("nothing")
    with pytest.raises(ShownError, match="%gpuconsole open --demo"):
        magic("status")
    with pytest.raises(ShownError, match="Two scripts"):
        magic("other.py", SCRIPT)
    magic("--batch-size 64 -- --width 4", SCRIPT)
    assert "A100-SXM4-40GB" in capsys.readouterr().out


def test_a_shown_mistake_is_clean_lines() -> None:
    shown = ShownError(ConsoleError("Wrong", "one\x1b[2J\ntwo", "\u202ehint"))
    assert shown._render_traceback_() == ["Wrong: one", "two", "hint"]
    assert ShownError(UsageError("Wrong", "one")).lines == ["Wrong: one"]
