"""Libraries that are imported once for all runs of a script."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TEXT = b"""
import os, yaml
import matplotlib.pyplot as plt
from .scipy import local
from sklearn.metrics import f1_score
from own import yaml
try:
    import pandas
except ImportError:
    pass
def later():
    import cv2
"""


@pytest.fixture
def imports(part: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Give the module, with a folder that counts as where libraries are installed."""
    module = part("runs.shared_imports")
    monkeypatch.setattr(module.sysconfig, "get_path", lambda kind: str(tmp_path / "site"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.syspath_prepend(str(tmp_path / "project"))
    for name in ("site", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(module, "LIBRARIES", frozenset({"first_library", "second_library"}))
    yield module
    for name in [name for name in sys.modules if name.endswith("_library")]:
        del sys.modules[name]


def test_known_libraries_are_imported_that_a_script_imports_in_any_case(part: Any) -> None:
    names = part("runs.shared_imports").imported(TEXT)
    assert names == ["yaml", "matplotlib.pyplot", "sklearn.metrics"]


def test_what_is_installed_is_imported_and_not_what_the_project_has(
    imports: Any, tmp_path: Path
) -> None:
    (tmp_path / "site" / "first_library.py").write_text("there = True\n")
    (tmp_path / "site" / "second_library.py").write_text("there = True\n")
    (tmp_path / "project" / "second_library.py").write_text("raise SystemExit\n")
    imports.import_first(b"import first_library, second_library, third_library\n")
    assert "first_library" in sys.modules
    assert "second_library" not in sys.modules


def test_a_library_that_cannot_be_imported_is_left_to_the_script(
    imports: Any, tmp_path: Path
) -> None:
    (tmp_path / "site" / "first_library.py").write_text("raise ValueError\n")
    imports.import_first(b"import first_library\n")
    imports.import_first(b"import first_library as\n")
    assert "first_library" not in sys.modules


def test_threads_of_an_import_are_waited_for(imports: Any, tmp_path: Path) -> None:
    (tmp_path / "site" / "first_library.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(0.05,)).start()\n"
    )
    before = threading.active_count()
    imports.import_first(b"import first_library\n")
    assert "first_library" in sys.modules
    assert threading.active_count() == before


def test_the_text_of_an_edited_script_is_had_before_a_batch_size_is_asked_for(
    part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_size = part("training.batch_size")
    script = tmp_path / "train.py"
    script.write_text("import yaml\n")
    monkeypatch.setattr(part("runs.forking"), "reached", lambda: pytest.fail("it was asked for"))
    assert batch_size.edited(str(script)) == b""
    monkeypatch.setitem(batch_size._EDITED, str(script.resolve()), (None, [{}], {}))
    assert batch_size.edited(str(script)) == b"import yaml\n"
