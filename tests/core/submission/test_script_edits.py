"""Edits of a shipped copy: made where the text is as it was, refused with a sentence elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.submission.script_edits import (
    BATCH,
    Edit,
    apply_edits,
    diff_of,
    digest_of,
    edited_texts,
    kinds_of,
    of_batch,
    whole_diff_of,
    with_edits,
)
from gpuconsole.errors import UsageError

TEXT = "a = 1\nb = 2\nc = 3\n"
AGAIN = "Run preflight again."


def test_an_edit_as_it_is_stored() -> None:
    assert Edit("t.py", 2, "b = 2", "b = 3", "amp", "00").as_json() == {
        "file": "t.py", "line": 2, "old": "b = 2", "new": "b = 3", "kind": "amp", "sha256": "00",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "edits", "result"),
    [
        (TEXT, [], TEXT),
        (TEXT, [Edit("t.py", 1, "a = 1", "a = 9")], "a = 9\nb = 2\nc = 3\n"),
        (TEXT, [Edit("t.py", 3, "c = 3", "c = 9")], "a = 1\nb = 2\nc = 9\n"),
        (TEXT, [Edit("t.py", 2, "b = 2", "b = 2\nx = 0")], "a = 1\nb = 2\nx = 0\nc = 3\n"),
        (TEXT, [Edit("t.py", 1, "a = 1\nb = 2", "x = 0")], "x = 0\nc = 3\n"),
        # The second is for the text that the first has made.
        (TEXT, [Edit("t.py", 1, "a = 1", "a = 1\nx = 0"), Edit("t.py", 3, "b = 2", "b = 9")],
         "a = 1\nx = 0\nb = 9\nc = 3\n"),
        # The last line may have no end, and ends of lines stay as they are.
        ("a = 1", [Edit("t.py", 1, "a = 1", "a = 2\nb = 3")], "a = 2\nb = 3"),
        ("a = 1\r\nb = 2\r\n", [Edit("t.py", 1, "a = 1", "x\ny")], "x\r\ny\r\nb = 2\r\n"),
        (TEXT, [Edit("t.py", 1, "a = 1", "a = 9", sha256=digest_of(TEXT))],
         "a = 9\nb = 2\nc = 3\n"),
    ],
)  # fmt: skip
def test_edits_are_made_one_after_the_other(text: str, edits: list[Edit], result: str) -> None:
    assert apply_edits(text, edits, "t.py") == result


@pytest.mark.parametrize(
    "edit",
    [Edit("t.py", 0, "a = 1", ""), Edit("t.py", 4, "d", ""), Edit("t.py", 2, "a = 1", ""),
     Edit("t.py", 3, "c = 3\nd", ""), Edit("t.py", 1, "a = 1 ", "")],
)  # fmt: skip
def test_a_line_that_is_another_is_refused(edit: Edit) -> None:
    with pytest.raises(UsageError) as caught:
        apply_edits(TEXT, [edit], "t.py")
    assert (caught.value.title, caught.value.message, caught.value.hint) == (
        "The script has changed",
        f"Line {edit.line} of t.py is no longer what the suggestion was made for.",
        AGAIN,
    )


def test_a_file_that_is_another_is_refused() -> None:
    edits = [Edit("t.py", 1, "a = 1", "a = 9"), Edit("t.py", 2, "b = 2", "b = 9", sha256="00")]
    with pytest.raises(UsageError) as caught:
        apply_edits(TEXT, edits, "t.py")
    assert (caught.value.title, caught.value.message, caught.value.hint) == (
        "The script has changed",
        "t.py is no longer the file that the suggestion was made for.",
        AGAIN,
    )


def test_any_text_has_a_digest_of_its_own() -> None:
    """Names of files that are no UTF-8 come as lone surrogates."""
    texts = ("", "a", "b", "é", "\udcff", "\udcfe")
    assert len({digest_of(text) for text in texts}) == len(texts)
    assert {len(digest_of(text)) for text in texts} == {64}


def test_files_are_edited_each_by_its_own(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("a = 1\n")
    second.write_text("a = 1\nb = 2\n")
    edits = [
        Edit(str(first), 1, "a = 1", "a = 5"),
        Edit(str(second), 2, "b = 2", "b = 5"),
        Edit(str(tmp_path / "x" / ".." / "a.py"), 1, "a = 5", "a = 6"),
    ]
    assert edited_texts(edits) == {first: "a = 6\n", second: "a = 1\nb = 5\n"}
    assert whole_diff_of(edits[:1]) == (
        f"--- {first}", f"+++ {first} (shipped copy)", "@@ -1 +1 @@", "-a = 1", "+a = 5",
    )  # fmt: skip
    second.write_bytes(b"\xff")
    for path, said in (
        (second, ("Script is not text", f"{second} is not UTF-8.", "Save as UTF-8.")),
        (tmp_path / "none", (
            "Cannot read the script", f"{tmp_path / 'none'}: No such file or directory.",
            "Check the path.")),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            edited_texts([Edit(str(path), 1, "", "")])
        assert (caught.value.title, caught.value.message, caught.value.hint) == said


def test_a_batch_size_takes_the_place_of_one_that_was_put_in_there() -> None:
    first, again = Edit("t.py", 3, "b = 64", "b = 32"), Edit("t.py", 3, "b = 32", "b = 16")
    assert with_edits((), (first,)) == (first,)
    assert with_edits((first,), (again,)) == (Edit("t.py", 3, "b = 64", "b = 16"),)
    for other in (
        Edit("u.py", 3, "b = 32", "b = 16"), Edit("t.py", 4, "b = 32", "b = 16"),
        Edit("t.py", 3, "b = 64", "b = 16"), Edit("t.py", 3, "b = 32", "b = 16", "amp"),
    ):  # fmt: skip
        assert with_edits((first,), (other,)) == (first, other)


def test_what_holds_for_one_batch_size() -> None:
    amp = Edit("t.py", 1, "", "", "amp")
    batch, accumulate = Edit("t.py", 2, "", ""), Edit("t.py", 3, "", "", "accumulate")
    assert of_batch((amp, batch, accumulate)) == (batch, accumulate)
    assert of_batch((amp, accumulate, batch)) == (accumulate, batch)
    assert of_batch((amp,)) == of_batch(()) == ()
    assert kinds_of((amp, batch, amp, accumulate)) == ("amp", BATCH, "accumulate")


def test_edits_as_a_diff() -> None:
    edits = (
        Edit("b.py", 5, "x", "y"),
        Edit("a.py", 7, "c\nd", "e"),
        Edit("a.py", 2, "a", "a\nb"),
    )
    assert diff_of(edits) == (
        "--- a.py", "+++ a.py (shipped copy)", "@@ -2 +2,2 @@", " a", "+b",
        "@@ -7,2 +8 @@", "-c", "-d", "+e",
        "--- b.py", "+++ b.py (shipped copy)", "@@ -5 +5 @@", "-x", "+y",
    )  # fmt: skip
