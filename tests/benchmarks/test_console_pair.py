"""Two versions of the console, measured at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def version(folder: Path, figure: float, *, more: bool = False) -> Path:
    """Make a checkout of which the benchmark prints this figure."""
    package = folder / "benchmarks"
    package.mkdir(parents=True)
    rows = [{"case": "map", "what": "CPU", "figure": figure}]
    if more:
        rows.append({"case": "map", "what": "of the new version alone", "figure": 1.0})
    (package / "__init__.py").touch()
    (package / "console.py").write_text(f"print({json.dumps(json.dumps(rows))})\n")
    return folder


def test_figures_of_both_versions_and_their_ratio(tmp_path: Path) -> None:
    other = version(tmp_path / "other", 50.0)
    this = version(tmp_path / "this", 40.0, more=True)
    command = f"import sys; sys.argv = ['pair', {str(other)!r}]; {_MAIN}"
    shown = subprocess.run(
        [sys.executable, "-c", command], cwd=this, capture_output=True, text=True, check=True
    ).stdout
    (row,) = (line.split() for line in shown.splitlines() if line.startswith("map"))
    assert row == ["map", "CPU", "50.00", "40.00", "0.80"]


_MAIN = (
    "import runpy; "
    f"runpy.run_path({str(ROOT / 'benchmarks/console/pair.py')!r}, run_name='__main__')"
)
