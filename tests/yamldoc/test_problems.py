"""Documents: every mistake has a place, and what is right arrives as it was written."""

from __future__ import annotations

import os
import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, field_validator, model_validator

from gpuconsole.errors import DocumentError
from gpuconsole.language import CHINESE, language
from gpuconsole.yamldoc import MAX_BYTES, Seconds, Section, Text, load, load_document, parse
from tests.cli.test_language import english


class Machine(Section):
    name: str
    port: int = Field(22, gt=0, le=65535)
    labels: dict[str, Text] = Field({})


class Site(Section):
    version: Literal[1]
    count: int | Literal["auto"] = 1
    order: Literal["weighted", "best_fit"] = "weighted"
    share: float = 1.0
    quiet: bool = False
    hosts: tuple[Machine, ...] = ()
    extra: Machine | None = None

    @field_validator("share")
    @classmethod
    def _no_three(cls, share: float) -> float:
        if share == 3:
            raise ValueError("three is not allowed")
        return share

    @model_validator(mode="after")
    def _no_four(self) -> Site:
        if self.share == 4:
            raise ValueError("four needs a host")
        return self


PORT = "`hosts[0].port`: expected"


def refused(text: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse(text, "site.yaml", Site)
    return caught.value


def test_a_document_becomes_the_model() -> None:
    site = parse("version: 1\nhosts:\n  - name: a\n    port: 2200\n", "site.yaml", Site)
    assert site.hosts == (Machine(name="a", port=2200),)


@pytest.mark.parametrize(
    "written", ["1.10", "0700", "1e3", "on", "no", "12:30", "8", "0.5", "true"]
)
def test_text_arrives_as_written(written: str) -> None:
    site = parse(f"version: 1\nhosts: [{{name: a, labels: {{k: {written}}}}}]", "s", Site)
    assert site.hosts[0].labels["k"] == written


def test_numbers_and_switches_in_any_spelling() -> None:
    site = parse("version: 1\nshare: 1e3\nquiet: yes\ncount: '4'", "s", Site)
    assert (site.share, site.quiet, site.count) == (1000.0, True, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1\nhosts:\n  - name: a\n    prot: 3", "4:5: `prot` is not a known key; did"),
        ("version: 1\nhosts:\n  - port: 3", "3:5: `hosts[0]`: `name` is missing"),
        ("version: 1\nhosts:\n  - {name: a, port: abc}", f"3:21: {PORT} a whole number"),
        ("version: 1\nhosts:\n  - {name: a, port: 70000}", f"3:21: {PORT} less than or equal to"),
        ("version: 1\nhosts:\n  - {name: a, port: true}", f"3:21: {PORT} a number, found `true`"),
        ("version: 1\nhosts:\n  - name: 12", "3:11: `hosts[0].name`: expected text, found `12`"),
        ("version: 1\nhosts: 5", "2:8: `hosts`: expected a list, found `5`"),
        ("version: 1\nhosts:\n# - name: a", "2:7: `hosts` is empty"),
        ("version: 1\nhosts: [~]", "2:9: `hosts[0]` is empty"),
        ("version: 2", "1:10: `version`: expected 1, found `2`"),
        ('version: "1"', '1:10: `version`: expected 1, found `"1"`'),
        ("version: 1\ncount: x", "2:8: `count`: expected a whole number or 'auto', found `x`"),
        ("version: 1\nshare: 3", "2:8: `share`: three is not allowed, found `3`"),
        ("version: 1\nshare: 4", "1:1: four needs a host"),
        ("version: 1\nport: 4", "2:1: `port` is not a known key here"),
        ("version: 1\nversion: 1", "2:1: `version` is given twice (first on line 1)"),
        ("version: 1\n\tcount: 2", "2:1: a tab indents this line"),
        ("version: !!python/object:os.system x", "1:10: the tag `tag:yaml.org,2002:python/object"),
        ("? [a]\n: 1", "1:3: expected a name as key, found a list"),
        ("version: &v [*v]", "1:10: an anchor contains an alias to itself"),
        ("version: *gone", "1:10: not valid YAML: found undefined alias"),
        ("version: 1\n--- \nversion: 1", "2:1: not valid YAML"),
        ("version: 'x", "1:10"),
        ("version: \x1b[31m", "1:10: the character U+001B is not allowed"),
        ("- 1", "1:1: expected keys and values, found a list"),
        ("just words", "1:1: expected keys and values, found `just words`"),
        ("", "1:1: the document is empty"),
        ("# only a comment\n", "1:1: the document is empty"),
    ],
)  # fmt: skip
def test_a_mistake_has_a_place_and_words(text: str, message: str) -> None:
    error = refused(text)
    if message == "1:10" and "site.yaml:1:10" not in error.message:
        message = f"1:{len(text) + 1}"  # the two YAML parsers point at different ends of a string
    assert error.message.startswith(f"site.yaml:{message}")
    assert error.exit_code == 2


def test_a_template_that_is_not_filled_in_says_what_to_add() -> None:
    comments = "lines that begin with # are comments."
    assert refused("version: 1\nhosts:\n").hint == f"Add an item below it; {comments}"
    assert refused("version: 1\nhosts: [~]").hint == f"Add a key below it; {comments}"


def test_all_mistakes_are_told_together_in_the_order_of_the_file() -> None:
    error = refused("version: 2\nhosts:\n  - name: a\n    prot: 3\n  - port: abc\nquiet: maybe")
    places = [line.split(":")[1] for line in error.message.splitlines()]
    assert places == ["1", "4", "5", "5", "6"]
    assert "5 problems" in error.title


def test_many_mistakes_are_cut_to_ten_lines_and_a_count() -> None:
    text = "version: 1\n" + "".join(f"bad{number}: 1\n" for number in range(25))
    lines = refused(text).message.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "... and 15 more problems"


def test_a_hundred_thousand_mistakes_are_counted_and_not_all_placed() -> None:
    error = refused("version: 1\n" + "".join(f"k{number}: 1\n" for number in range(90_000)))
    assert len(error.message.splitlines()) == 11
    assert error.message.endswith("... and 89990 more problems")


def test_a_choice_names_the_nearest() -> None:
    assert refused("version: 1\norder: best-fit").hint == "Did you mean `best_fit`?"


def test_alias_bombs_are_refused_before_they_grow() -> None:
    rows = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    rows += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "200000 parts" in refused("\n".join(rows)).message


@pytest.mark.parametrize("text", ["k: " + "[" * 30_000, "k: " + "[" * 500 + "]" * 500, "{a: " * 90])
def test_deep_nesting_is_refused(text: str) -> None:
    assert refused(text).message.startswith("site.yaml:1:")


def test_merges_and_anchors_work_and_keep_places() -> None:
    text = "version: 1\nhosts:\n  - &first {name: a, port: 5}\n  - {<<: *first, name: b}\n"
    site = parse(text, "s", Site)
    assert [(host.name, host.port) for host in site.hosts] == [("a", 5), ("b", 5)]
    error = refused(text.replace("port: 5", "port: x"))
    assert error.message.startswith("site.yaml:3:")


def test_what_a_file_shows_of_itself_is_clean() -> None:
    error = refused('version: "\\e[31mred\\u202e"')
    assert "\x1b" not in error.message
    assert "\u202e" not in error.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"version: 1\nname: caf\xe9")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, words in [
        (tmp_path / "gone.yaml", "does not exist"),
        (tmp_path, "is a folder"),
        (large, "larger than 4 MiB"),
        (latin, f"{latin}:2:10: the byte 0xe9 is not UTF-8"),
        (pipe, "not a regular file"),
        (tmp_path / "a\0b", "null byte"),
        (tmp_path / ("n" * 300), "name too long"),
    ]:
        with pytest.raises(DocumentError) as caught:
            load(path, Site)
        assert words in caught.value.message.lower() or words in caught.value.message


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\n")
    assert load(path, Site).version == 1


def test_a_document_can_place_later_findings(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("version: 1\nhosts:\n  - name: a\n    port: 5\n")
    error = load_document(path, Site).error(("hosts", 0, "port"), "is taken", "Choose another.")
    assert error.message == f"{path}:4:11: `hosts[0].port`: is taken"
    assert error.hint == "Choose another."


@given(st.text(alphabet=st.sampled_from("ab:-&*[]{}'\"\n\t #!?|>%@~0.<é\x07"), max_size=60))
def test_any_text_is_a_model_or_a_document_error(text: str) -> None:
    try:
        parse(text, "s", Site)
        message = "s:"
    except DocumentError as error:
        message = error.message
    assert message.startswith("s:")


# -- in Chinese ---------------------------------------------------------------------------------

IN_CHINESE = {
    "x: [1": ("不是有效的 YAML",),
    "hosts:\n\t- a": ("制表符", "请用空格。"),
    "": ("文档是空的",),
    "settings: {them: night, theme: day}": (
        "`them` 不是已知的键；是否指 `theme`？",
        "请更正或删除它。",
    ),
    "port: x": ("整数", "实际是 `x`"),
    "port: 0": ("此处应大于 0",),
    "name: [a]": ("此处应为文本", "实际是 列表"),
    "wait: soon": ("此处应为时长", "实际是 `soon`"),
    "name: a\nname: b": ("`name` 写了两次（第一次在第 1 行）",),
    "tags:": ("`tags` 是空的", "请在它下面加一项"),
    "color: blu": ("此处应为 'red' 或 'blue'，实际是 `blu`", "是否指 `blue`？"),
    "size: huge": ("此处应为 'small', 'medium' 或 'large'，实际是 `huge`",),
    "shape: flat": ("此处应为 'round' 或 'square'，实际是 `flat`",),
    "kind: other": ("此处应为 'only'，实际是 `other`",),
    "!!python/object:x {}": ("不允许标签",),
    "[1, 2]": ("此处应为键和值，实际是 列表",),
    "settings: {}": ("缺少 `theme`",),
}


class Inner(Section):
    """A section of it."""

    theme: str


class Shape(Enum):
    """Choices that are a type of their own."""

    ROUND = "round"
    SQUARE = "square"


class Wanted(Section):
    """A document with something of every kind."""

    port: Annotated[int, Field(gt=0)] = 22
    name: str = ""
    wait: Seconds = 1.0
    tags: tuple[str, ...] = ()
    color: Literal["red", "blue"] = "red"
    size: Literal["small", "medium", "large"] = "small"
    shape: Shape = Shape.ROUND
    kind: Literal["only"] = "only"
    settings: Inner | None = None


@pytest.mark.parametrize("text", IN_CHINESE)
def test_problems_are_said_in_chinese_and_keep_what_was_written(text: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text, "lab.yaml", Wanted if text else Inner)
    say = language(CHINESE).say
    said = "\n".join(map(say, (caught.value.title, caught.value.message, caught.value.hint)))
    assert "lab.yaml:" in said
    for words in IN_CHINESE[text]:
        assert words in said
    ours = re.sub(r"not valid|did not find .*|expected ',' .*|found .*", "", said)
    assert english(ours) == [], said


def test_problems_in_english_are_as_ever() -> None:
    with pytest.raises(DocumentError) as caught:
        parse("port: x\nname: [a]\nsettings: {them: night, theme: day}", "lab.yaml", Wanted)
    assert str(caught.value.message) == (
        "lab.yaml:1:7: `port`: expected a whole number, found `x`\n"
        "lab.yaml:2:7: `name`: expected text, found a list\n"
        "lab.yaml:3:12: `them` is not a known key; did you mean `theme`?"
    )
