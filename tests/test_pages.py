"""What the pages promise: links lead somewhere, and both READMEs show the same commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
_BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text("utf-8")) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def commands(page: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    lines = (line for block in _BLOCK.findall(text) for line in block.splitlines())
    return [line.partition("#")[0].rstrip() for line in lines]


def test_the_readme_says_the_same_commands_in_both_languages() -> None:
    assert commands("README.md") == commands("README.zh-CN.md")
    assert len(commands("README.md")) > 20
