"""What is secret among variables, and text that may not quote it; files of variables."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.submission.env_file import LARGEST, read_env_file
from gpuconsole.core.submission.secrets import HIDDEN, SHORTEST, looks_secret, masked, withheld
from gpuconsole.core.text import clean
from gpuconsole.errors import UsageError

SECRET = "s3cr3t-value-0123456789"


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "WANDB_API_KEY", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "token", "MyToken",
     "SENTRY_DSN", "GITHUB_PAT", "OPENAI_APIKEY", "SSH_PASSPHRASE", "BASIC_AUTH", "KEY2"],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name, "x")


@pytest.mark.parametrize(
    "name",
    ["LR", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "KEYBOARD", "PATH", "AUTHOR", "NCCL_DEBUG",
     "FLAGS_allocator_strategy", "PASSES", "GPUCONSOLE_RESULTS", "KEYS_FILE"],
)  # fmt: skip
def test_names_of_settings_are_not(name: str) -> None:
    assert not looks_secret(name, "x")


def test_an_address_with_a_password_is_secret() -> None:
    assert withheld({"DB": "postgres://ada:pw@db/x", "URL": "http://host:80/a@b", "HF_TOKEN": "x"},
                    ("MINE",)) == {"DB", "HF_TOKEN", "MINE"}  # fmt: skip


@given(st.text(min_size=SHORTEST, max_size=40), st.text(max_size=60), st.text(max_size=60))
def test_no_text_quotes_a_value(value: str, before: str, after: str) -> None:
    if value in HIDDEN or HIDDEN in value:
        return
    for quoted in (value, json.dumps(value), json.dumps(value, ensure_ascii=False)):
        text = masked(f"{before}\0{quoted}\0{after}", [value])
        assert value not in text.replace(HIDDEN, "")
        assert f"\0{quoted}\0" not in text


def test_what_cleaning_made_of_a_value_is_not_quoted_either() -> None:
    value = f"-----BEGIN KEY-----\n{SECRET}\nend"
    assert SECRET not in masked(clean(f"env {value} is wrong"), [value])
    assert SECRET not in masked(f"line 2: {SECRET}", [value])


@pytest.mark.parametrize("size", range(SHORTEST, len(SECRET)))
def test_the_part_of_a_value_before_a_cut_is_not_quoted(size: int) -> None:
    text = masked(clean(f"engine says: {SECRET} is wrong", 14 + size), [SECRET])
    assert SECRET[:SHORTEST] not in text
    assert text == f"engine says: {HIDDEN}…"


def test_short_values_and_other_words_stay() -> None:
    assert masked("exit code 1", ["1", ""]) == "exit code 1"
    assert masked("one two", ["ab", "three"]) == "one two"


# --- files of variables ---------------------------------------------------------------------------


def written(folder: Path, content: str | bytes, mode: int = 0o600) -> Path:
    path = folder / "job.env"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def test_a_file_is_read_as_docker_reads_it(tmp_path: Path) -> None:
    text = "\ufeff# comment\n\nA=1\r\n  B= two words \nC='quoted'#x\nD==a=b\nE=\nMINE\n"
    assert read_env_file(written(tmp_path, text), {"MINE": "from here"}) == {
        "A": "1", "B": " two words ", "C": "'quoted'#x", "D": "=a=b", "E": "", "MINE": "from here",
    }  # fmt: skip


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o610, 0o666])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match="may be read by other users") as refused:
        read_env_file(written(tmp_path, f"A={SECRET}\n", mode), {})
    assert refused.value.hint == f"Run: chmod 600 {tmp_path / 'job.env'}"


@pytest.mark.parametrize(
    "content",
    [f"1A={SECRET}", f"A B={SECRET}", f"={SECRET}", f"A={SECRET}\0", f"export A={SECRET}",
     f"A={SECRET}\nwhat is this", b"A=\xff", "A=1\n" * LARGEST, "UNSET\n"],
)  # fmt: skip
def test_what_is_wrong_is_told_without_a_value(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(UsageError) as refused:
        read_env_file(written(tmp_path, content), {})
    assert SECRET not in f"{refused.value} {refused.value.hint}"


def test_a_wrong_line_of_a_file_of_variables_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "A=1\n# a comment\n2B=3\n")
    with pytest.raises(UsageError) as refused:
        read_env_file(path, {})
    assert str(refused.value.message) == f"{path}:3: expected NAME=VALUE, or NAME alone."


def test_a_folder_a_pipe_and_nothing_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in (".", "pipe", "nothing"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_env_file(tmp_path / name, {})


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ('pass"word-0123', json.dumps('pass"word-0123')[1:-1]),
        ("pässword-0123", json.dumps("pässword-0123")[1:-1]),
        ("pässword-0123", "pässword-0123"),
        ("two lines\nof words", "two lines of words"),
    ],
)
def test_a_secret_is_hidden_in_every_way_that_it_may_be_written(secret: str, shown: str) -> None:
    """Nothing of it is left, also not its last letter."""
    assert masked(f"<{shown}>", [secret]) == f"<{HIDDEN}>"
