"""What looks secret in a file: keys and tokens wherever they are, and no ordinary text."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.remote.transfer.bundle_secrets import found_in, is_secret_folder, is_secret_name
from tests.waiting import BOUNDED_S

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def made(prefix: str, length: int, letters: str = _LETTERS) -> str:
    """Return a token of a service, made here: no real one is in this repository."""
    return prefix + "".join(Random(prefix).choices(letters, k=length))


BODY = "\n".join(made(f"line{n}", 60) for n in range(20))
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----\n"
TOKENS = (
    made("hf_", 34), made("ghp_", 36), made("gho_", 36), made("github_pat_", 82),
    made("glpat-", 20), made("sk-", 48), made("sk-proj-", 100), made("sk-ant-api03-", 90),
    made("AKIA", 16, _LETTERS[26:]), made("xoxb-", 48), made("AIza", 35), made("ya29.", 60),
    made("npm_", 36), made("pypi-", 150), made("dckr_pat_", 27), made("nvapi-", 64),
    "https://" + made("hooks.slack.com/services/T", 40),
)  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_found_by_their_prefix_with_their_line(token: str) -> None:
    for text in (f"{token}", f'key = "{token}"', f"https://u:{token}@host", f"export T={token};"):
        found = found_in("config.yaml", f"a: 1\nb: 2\n{text}\n".encode())
        assert re.fullmatch(r"line 3 holds an? [A-Za-z ]+", found), text
        assert token not in found


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "\ufeff" + KEY,
        "# the key of the host\n\n// really\n" + KEY,
        "\n" * 80 + KEY,
        " \t\r\n" * 200 + KEY,
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n",
        json.dumps({"type": "service", "private_key": KEY}),
        json.dumps([{"deep": {"k": KEY.replace("\n", "\r\n")}}]),
        f"key: |\n  {KEY}",
        "x = (\n" + "\n".join(f'    "{line}\\n"' for line in KEY.splitlines()) + "\n)\n",
        KEY.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0123\n\n", 1),
        "text " * 300_000 + KEY,
    ],
    ids=["bare", "bom", "comment", "blanks", "spaces", "short", "json", "crlf", "yaml", "python",
         "encrypted", "late"],
)  # fmt: skip
def test_private_keys_are_found_wherever_they_are(text: str) -> None:
    assert "a private key" in found_in("file.txt", text.encode())


def test_text_of_other_encodings_is_read() -> None:
    for coding in ("utf-16", "utf-8-sig"):
        assert "GitHub" in found_in("a.txt", f"T={TOKENS[1]}\n".encode(coding))
        assert "private key" in found_in("a.txt", KEY.encode(coding))


def notebook(*cells: object) -> bytes:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()


def test_of_a_notebook_the_cell_is_named() -> None:
    plain = {"cell_type": "code", "source": ["import os\n"], "outputs": []}
    login = {"cell_type": "code", "source": ["login(\n", f"  '{TOKENS[0]}')"], "outputs": []}
    printed = {
        "cell_type": "code", "source": "print(x)",
        "outputs": [{"data": {"text/plain": [TOKENS[1][:10], TOKENS[1][10:]]}}],
    }  # fmt: skip
    assert found_in("a.ipynb", notebook(plain)) == ""
    assert found_in("a.ipynb", notebook(plain, login)) == "cell 2 holds a Hugging Face token"
    assert found_in("A.IPYNB", notebook(plain, plain, printed)) == "cell 3 holds a GitHub token"
    assert "GitHub" in found_in("a.ipynb", f"not JSON {TOKENS[1]}".encode())
    elsewhere = json.dumps({"cells": [plain], "metadata": {"t": TOKENS[1]}}).encode()
    assert found_in("a.ipynb", elsewhere) == "line 1 holds a GitHub token"


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000, b'{"cells": ' + b"[" * 100_000, b'{"cells": 3}', b'{"cells": [3, null]}',
        b"[]", b"", b"\xff\xfe", b"\xff\xfe\x00", b'{"cells": [{"source": {"a": [1, ["x"]]}}]}',
    ],
)  # fmt: skip
def test_what_is_no_notebook_is_passed_by(content: bytes) -> None:
    assert found_in("a.ipynb", content) == ""


@pytest.mark.parametrize(
    "text",
    [
        'if text.startswith("-----BEGIN PRIVATE KEY-----"):\n    load(text)\n',
        "The file begins with -----BEGIN RSA PRIVATE KEY----- and a lot of letters behind it.\n",
        "-----BEGIN CERTIFICATE-----\n" + BODY,
        "hf_hub_download(repo, filename='a_very_long_name_of_a_file_that_is_downloaded')",
        'TOKEN = "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"',
        'KEY = "AKIAIOSFODNN7EXAMPLE"',
        '<div class="sk-toggleable__content-fitted-and-hidden-visually-block">',
        "task-" + "a1B" * 20,
        "ghp_short",
        "import secrets\nsecrets.token_hex()\n",
    ],
)
def test_ordinary_text_is_not_secret(text: str) -> None:
    assert found_in("a.py", text.encode()) == ""


@given(st.binary(max_size=2000), st.sampled_from(["a.ipynb", "a.py"]))
def test_no_content_stops_it(content: bytes, name: str) -> None:
    assert isinstance(found_in(name, content), str)


@pytest.mark.parametrize(
    "content",
    [b" " * 8_000_000, b"hf_" * 2_000_000, b"PRIVATE KEY" * 500_000, b"# a\n" * 2_000_000,
     b"-----BEGIN PRIVATE KEY-----\n" * 200_000 + b"b" * 1_000_000, b"sk-" + b"a" * 8_000_000,
     b"sk-aA" * 1_000_000],
    ids=["blanks", "marks", "words", "comments", "headers", "long", "many"],
)  # fmt: skip
def test_large_files_take_little_processor_time(content: bytes) -> None:
    began = time.process_time()
    found_in("a.txt", content)
    assert time.process_time() - began < BOUNDED_S


def test_folders_of_keys_are_known_at_any_depth() -> None:
    for path in (".ssh", "a/.aws", "x/.config/gcloud", ".Kaggle", "a/b/.huggingface"):
        assert is_secret_folder(path)
    for path in ("ssh", "gcloud", ".config", "a.ssh", "my.config/gcloud", "config/gcloud"):
        assert not is_secret_folder(path)


def test_this_repository_would_be_shipped_but_for_its_modules_of_that_name() -> None:
    root = Path(__file__).resolve().parents[2]
    for folder in ("gpuconsole", "tests", "docs"):
        for path in (root / folder).rglob("*.py"):
            assert found_in(path.name, path.read_bytes()) == "", path
            assert not is_secret_name(path.name) or path.name == "secrets.py"
