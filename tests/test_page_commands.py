"""Each command that a page says is one that the program takes: names, options and their values."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from gpuconsole.cli.entry import gpuconsole
from gpuconsole.cli.options import Options
from tests.page_commands import ROOT, Command, commands

PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/zh/*.md"))
    if page.name != "CHANGELOG.md" and commands(page)
)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_program_takes_what_a_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert wrong(commands(page)) == []


def test_wrong_commands_are_found_wherever_they_stand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`gpuconsole why` and `gpuconsole why --wrongly`, `gpuconsole forward JOB [none]`\n"
        "```\n$ gpuconsole jobs --jsn   # a list\nX=1 gpuconsole wait\n"
        "tar c . | gpuconsole exec h:c -i -- tar x > log\ngpuconsole submit a.py \\\n  --goul x\n"
        "gpuconsole logs h:c -n > log\ngpuconsole jobs [--json] > jobs.json\n```\n"
    )
    found = [problem.partition(":")[0] for problem in wrong(commands(page))]
    assert found == [
        "gpuconsole jobs --jsn   # a list",
        "X=1 gpuconsole wait",
        "gpuconsole submit a.py    --goul x",
        "gpuconsole logs h",
        "gpuconsole why --wrongly",
        "gpuconsole forward JOB [none]",
    ]


def test_the_pages_say_many_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 300
