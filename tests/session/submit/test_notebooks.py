"""Notebooks are read by preflight alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.jobs import Task
from gpuconsole.errors import UsageError
from gpuconsole.session.submit.validate import completed


def test_a_notebook_is_refused_before_anything_is_packed(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text("{}")
    with pytest.raises(UsageError, match="reads notebooks") as caught:
        completed(Task("train", script=str(path)))
    assert "nbconvert" in caught.value.hint
    script = path.rename(tmp_path / "train.py")
    assert completed(Task("train", script=str(script))).script == str(script)
