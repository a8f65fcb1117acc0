"""Argument lists through any login shell."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.remote.links.ssh_process import NOISE_LIMIT, REMOTE_COMMAND, Cleared, script

ARGUMENTS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))


@given(ARGUMENTS)
def test_arguments_arrive_as_they_were(words: list[str]) -> None:
    argv = ["printf", "%s\\0", *words] if words else ["printf", ""]
    sent = script(argv, "n0nce") + b"input for the command"
    done = subprocess.run(["sh", "-c", REMOTE_COMMAND], input=sent, capture_output=True, check=True)
    assert done.stderr == b"n0nce\n"
    assert done.stdout == b"n0nce\n" + b"".join(word.encode() + b"\0" for word in words)


def test_the_commands_input_is_left_to_it() -> None:
    sent = script(["cat"], "n") + b"one\ntwo"
    done = subprocess.run(["sh", "-c", REMOTE_COMMAND], input=sent, capture_output=True, check=True)
    assert done.stdout == b"n\none\ntwo"


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        script(["echo", "a\0b"], "n")


def test_noise_before_the_mark_is_dropped_even_across_chunks() -> None:
    cleared = Cleared("n0nce")
    assert cleared.feed(b"welcome\nn0") == b""
    assert cleared.feed(b"nce\nreal") == b"real"
    assert cleared.feed(b" n0nce\n") == b" n0nce\n"


def test_endless_noise_is_given_up() -> None:
    cleared = Cleared("n0nce")
    assert cleared.feed(b"x" * NOISE_LIMIT) == b""
    with pytest.raises(ValueError, match="without end"):
        cleared.feed(b"x")
