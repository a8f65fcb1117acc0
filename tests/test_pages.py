"""What the pages promise: links lead somewhere, commands are ones that the program takes, the
site has every page, the README stays short."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from gpuconsole.cli.entry import gpuconsole
from gpuconsole.cli.options import Options

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
IN_CHINESE = sorted(page.name for page in ROOT.glob("docs/zh/*.md"))
MOST_WORDS = 900
MOST_BYTES = 3 * 2**19
"""Of the README's moving picture: 1.5 MiB."""
_LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
_BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names that a page's headings have in links."""
    text = _BLOCK.sub("", page.read_text("utf-8"))
    titles = [re.sub(r"\]\([^)]*\)", "", title).lower() for title in _HEADING.findall(text)]
    return frozenset(re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in titles)


def wrong_links(page: Path) -> list[str]:
    wrong = []
    for target, anchor in _LINK.findall(_BLOCK.sub("", page.read_text("utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors(file.resolve())):
            wrong.append(f"{target}#{anchor}" if anchor else target)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    assert wrong_links(page) == []


def test_a_wrong_link_and_a_wrong_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`: c\n[a](#a-b-c) [b](#x) [c](gone.md) [d](page.md#a-b-c)\n```\n[e](f)\n```\n"
    )
    assert wrong_links(page) == ["#x", "gone.md"]


def in_navigation(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    parts = part.values() if isinstance(part, dict) else part
    return [name for one in parts for name in in_navigation(one)]


def test_every_page_is_in_the_navigation_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    docs = ROOT / "docs"
    pages = sorted(page.relative_to(docs).as_posix() for page in docs.glob("**/*.md"))
    assert sorted(in_navigation(site["nav"])) == pages


def commands(page: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    lines = (line for block in _BLOCK.findall(text) for line in block.splitlines())
    return [line.partition("#")[0].rstrip() for line in lines]


def test_the_readme_says_the_same_commands_in_both_languages() -> None:
    assert commands("README.md") == commands("README.zh-CN.md")
    assert len(commands("README.md")) >= 8


@pytest.mark.parametrize("page", IN_CHINESE)
def test_a_chinese_page_says_the_commands_of_the_english_one(page: str) -> None:
    def typed(name: str) -> set[str]:
        starts = ("$ ", "make ", "pip ", "uvx ", "gpuconsole ")
        return {line for line in commands(name) if line.startswith(starts)}

    assert typed(f"docs/zh/{page}") == typed(f"docs/{page}")
    tables = (ROOT / f"docs/zh/{page}").read_text("utf-8").count("| --- |")
    assert tables == (ROOT / f"docs/{page}").read_text("utf-8").count("| --- |") - MISSING.get(
        page, 0
    )


MISSING = {"inventory.md": 1}
"""Tables that a Chinese page says in a sentence."""


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_readme_names_the_set_up_commands(page: str) -> None:
    assert {"make demo", "make test"} <= set(commands(page))


def test_the_readme_is_short_and_in_order() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) < MOST_WORDS
    assert _HEADING.findall(_BLOCK.sub("", text)) == [
        "gpuconsole", "Try", "Two minutes", "Install and your first lab",
        "When to use something else", "Features", "Documentation", "Limits",
    ]  # fmt: skip


def test_the_readme_reaches_every_page() -> None:
    text = (ROOT / "README.md").read_text("utf-8") + (ROOT / "docs/index.md").read_text("utf-8")
    linked = {Path(target).name for target, _ in _LINK.findall(text)}
    unlinked = {page.name for page in ROOT.glob("docs/*.md")} - linked
    assert unlinked == set()


def test_the_moving_picture_is_small_marked_and_fetches_nothing() -> None:
    picture = ROOT / "docs" / "images" / "tour.svg"
    text = picture.read_text("utf-8")
    assert picture.stat().st_size < MOST_BYTES
    assert ">SIMULATED</text>" in text
    assert re.findall(r"https?://[^\"' <)]+", text) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in text


# -- commands ------------------------------------------------------------------------------------

PROGRAM = "gpuconsole"
_IN_TEXT = re.compile(rf"`({PROGRAM}(?: [^`\n]*)?(?:\n[^`\n]+)?)`")
_LINE = re.compile(rf"(\$ )?([^#]*[|;&] *|sudo |\w+=\S+ )*{PROGRAM}\b")
STANDS_FOR = {"N": "1", "PORT": "8040", "TIME": "1h"}
"""What a reader puts where a number or a time is to be written."""
_OPTIONAL = re.compile(r" \[([^\]\n]*)\]")


@dataclass(frozen=True)
class Command:
    """A line as a page says it."""

    line: str
    in_block: bool
    """Whether it is to be typed; in the text a command may be named without its arguments."""

    def written(self) -> Iterator[list[str]]:
        """Yield the words of each `gpuconsole` of the line, without that one: what is in brackets
        may be left out, so that there are two ways to write it."""
        shortest, longest = _OPTIONAL.sub("", self.line), _OPTIONAL.sub(r" \1", self.line)
        for line in dict.fromkeys((shortest, longest)):
            for words in _commands_of(line):
                while words and ("=" in words[0] or words[0] == "sudo"):
                    words = words[1:]
                if words and words[0] == PROGRAM:
                    yield [STANDS_FOR.get(word, word) for word in words[1:]]


def commands_of(page: Path) -> list[Command]:
    """Return the commands of a page, in the order of its blocks, then of its text."""
    text = page.read_text("utf-8")
    lines = [
        line.strip().removeprefix("$ ")
        for block in _BLOCK.findall(text)
        for line in block.replace("\\\n", " ").splitlines()
        if _LINE.match(line.strip())
    ]
    typed = [Command(line, in_block=True) for line in lines]
    named = _IN_TEXT.findall(_BLOCK.sub("", text))
    return typed + [Command(" ".join(line.split()), in_block=False) for line in named]


def _commands_of(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    skip = False
    for word in lexer:
        if set(word) <= set("|&;"):
            yield words
            words = []
        elif skip or set(word) <= set("<>"):
            # A redirection and its file.
            skip = not skip
        else:
            words.append(word)
    yield words


SAYING = [page for page in PAGES if page.name != "CHANGELOG.md" and commands_of(page)]
"""What was changed long ago may be called otherwise now."""


def parse(words: list[str]) -> None:
    """Parse a command line and run nothing; ClickException where it is wrong."""
    context = gpuconsole.make_context("gpuconsole", list(words), obj=Options())
    group: click.Command = gpuconsole
    while isinstance(group, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, command, words = group.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, words, parent=context)
        group = command


def wrong(said: list[Command]) -> list[str]:
    """Return the commands that are not taken, with why."""
    problems = []
    for command in said:
        for words in command.written():
            try:
                parse(words)
            except click.exceptions.Exit:
                pass  # Of --help and the like.
            except click.ClickException as error:
                only_named = not any(word.startswith("-") for word in words) and isinstance(
                    error, (click.MissingParameter, click.exceptions.NoArgsIsHelpError)
                )
                if command.in_block or not only_named:
                    problems.append(f"{command.line}: {error.format_message()}")
    return problems


@pytest.mark.parametrize("page", SAYING, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_program_takes_what_a_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert wrong(commands_of(page)) == []


def test_wrong_commands_are_found_wherever_they_stand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`gpuconsole why` and `gpuconsole why --wrongly`, `gpuconsole forward JOB [none]`\n"
        "```\n$ gpuconsole jobs --jsn   # a list\nX=1 gpuconsole wait\n"
        "tar c . | gpuconsole exec h:c -i -- tar x > log\ngpuconsole submit a.py \\\n  --goul x\n"
        "gpuconsole logs h:c -n > log\ngpuconsole jobs [--json] > jobs.json\n```\n"
    )
    found = [problem.partition(":")[0] for problem in wrong(commands_of(page))]
    assert found == [
        "gpuconsole jobs --jsn   # a list",
        "X=1 gpuconsole wait",
        "gpuconsole submit a.py    --goul x",
        "gpuconsole logs h",
        "gpuconsole why --wrongly",
        "gpuconsole forward JOB [none]",
    ]


def test_the_pages_say_many_commands() -> None:
    assert sum(len(commands_of(page)) for page in SAYING) > 300
