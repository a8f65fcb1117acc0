"""The command line in Chinese: its texts against the catalogue, and what commands print."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from gpuconsole.cli import main, output
from gpuconsole.cli.views import preflight
from gpuconsole.language import CHINESE, language
from gpuconsole.preflight.interpreter.domain.values import Form, Root, Unknown
from gpuconsole.preflight.interpreter.frontend.questions import ask
from gpuconsole.remote.check import HOST_STEPS, SSH_STEPS
from gpuconsole.remote.check_findings import Result
from gpuconsole.session import factory
from gpuconsole.session.factory import DemoOptions
from gpuconsole.session.report.words import FIGURES
from tests.tui.test_language import ROOT, WIDE_LETTER, missing, trees, written

SAYING = frozenset({"say", "tell", "note", "said", "text", "_hanging", "msg", "confirm", "print"})
"""What is called with a text that a person reads as its first argument."""
LISTING = frozenset({"table", "sentences"})
"""What is called with such texts alone; so are errors."""
UNTRANSLATED = frozenset(
    {
        # Names, units, and what is typed.
        "P50", "P95", "id", "ID", "GPUS", "CUDA", "Paddle", "OOM", "MiB", "FLOPS",
    }
)  # fmt: skip


def printed() -> Iterator[tuple[str, str]]:
    """Every text in the code of the commands that a person reads, and where."""
    for path, tree in trees().items():
        if not path.is_relative_to(ROOT / "cli"):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else (
                called.id if isinstance(called, ast.Name) else ""
            )  # fmt: skip
            given: list[ast.expr] = []
            if name in SAYING:
                given = node.args[:1]
            elif name in LISTING or name.endswith("Error"):
                given = node.args
            for each in given:
                for text in written(each):
                    yield text, f"{path.relative_to(ROOT)}:{node.lineno}"


def test_whatever_the_commands_say_is_in_the_catalogue() -> None:
    assert not missing(printed(), UNTRANSLATED)


def test_headings_and_findings_are_in_the_catalogue() -> None:
    say = language(CHINESE).say
    words = [
        *FIGURES, *get_args(Result), *SSH_STEPS, *HOST_STEPS,
        *(part for _, part, _ in preflight.PARTS), *preflight._MOMENTS.values(),
        *(verdict.replace("-", " ") for verdict in preflight._VERDICTS),
    ]  # fmt: skip
    known = {"tcp", "python", "docker"}
    assert [word for word in words if word not in known and say(word) == word] == []


# -- what commands print ------------------------------------------------------------------------

ENGLISH_WORDS = re.compile(r"(?:\b[a-z]{2,}[,;]? ){2,}[a-z]{2,}\b")
"""Three words of small letters and more."""
TYPED = re.compile(r"`[^`]*`|gpuconsole [a-z-]+ \S+|^\s*[-+|│].*$|--[a-z-]+", re.MULTILINE)
"""What is typed, lines of the script and of logs."""
TOO_BIG = ROOT / "data" / "examples" / "too_big.py"
Run = Callable[..., str]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs a command on the simulated lab, in Chinese; returns what it printed."""
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    for variable in ("LC_ALL", "LC_MESSAGES", "GPUCONSOLE_INVENTORY", "GPUCONSOLE_STATE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    lab = DemoOptions(hosts=6, speed=40.0)
    opened = factory.open_session

    def simulated(inventory: Path | None, state: Path | None, **more: Any) -> Any:
        chosen = {name: more[name] for name in ("read_only", "dispatch") if name in more}
        return opened(None, state, demo=lab, **chosen)

    monkeypatch.setattr(factory, "open_session", simulated)
    output._language.cache_clear()

    def go(*words: object) -> str:
        main([str(word) for word in words])
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return said.out + said.err

    yield go
    output._language.cache_clear()


def english(text: str) -> list[str]:
    """What of a text is an English sentence."""
    return ENGLISH_WORDS.findall(TYPED.sub("", text))


def has_chinese(text: str) -> bool:
    return WIDE_LETTER.search(text) is not None


def test_what_is_looked_for_is_an_english_sentence() -> None:
    assert english("放不下: it will not fit")
    assert not english("放不下 train.py，运行 `gpuconsole submit train.py`")


@pytest.mark.parametrize(
    "words",
    [
        ("preflight", TOO_BIG, "--offline", "--measure", "never", "--explain", "--curve"),
        ("preflight", TOO_BIG, "--memory-mib", "4096", "--measure", "never"),
        ("status",),
        ("doctor",),
        ("jobs",),
        ("simulate", "--policy", "weighted", "--policy", "rl_based", "--window-days", "1"),
        ("why", "nothing"),
        ("what-if", "add", "4", "RTX_4090"),
        ("incidents",),
        ("report",),
        ("journal", "check"),
        ("notify",),
        ("audit",),
        ("image", "pull"),
        ("preflight", "nothing.py"),
    ],
    ids=str,
)
def test_no_english_sentence_is_printed(words: tuple[object, ...], run: Run) -> None:
    said = run(*words)
    assert has_chinese(said)
    assert english(said) == [], said


def test_no_english_sentence_is_told_of_a_job(run: Run, tmp_path: Path) -> None:
    state = ("--state", tmp_path / "state")
    job = run("submit", TOO_BIG, "--force", "--hold", "--measure", "never", *state).split()[0]
    for words in (
        ("jobs",), ("why", job), ("priority", job, 3), ("release", job), ("why", job),
        ("jobs", job), ("cancel", job), ("why", job), ("retry", job), ("journal", "backups"),
    ):  # fmt: skip
        said = run(*words, *state)
        assert has_chinese(said), (words, said)
        assert english(said) == [], (words, said)


@pytest.mark.parametrize("form", ["value", "number", "test", "shape"])
@pytest.mark.parametrize("name", ["", "size"])
def test_every_question_of_preflight_is_chinese(form: Form, name: str) -> None:
    root = Root("read(path)", "train.py", 7, name, form)
    asked = ask(Unknown("train.py", 7, "it is not known", root))
    assert asked is not None
    said = language(CHINESE).say(asked.question)
    assert has_chinese(said)
    assert english(said) == []
    assert "train.py:7" in said
