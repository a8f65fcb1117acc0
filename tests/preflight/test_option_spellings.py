"""The spellings of a script's own options."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.preflight.option_spellings import Options

SCRIPT = """
import argparse, click
p = argparse.ArgumentParser()
p.add_argument("-l", "--learning-rate", dest="lr", type=float)
p.add_argument("--batch_size", type=int)
p.add_argument("data")

@click.option("--seed", "-s", default=0)
def main(seed): ...
"""


def test_options_are_found_by_flag_or_destination(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    options = Options.of(script)
    assert options.flags("lr") == ("-l", "--learning-rate")
    assert options.flags("learning_rate") == ("-l", "--learning-rate")
    assert options.flags("batch-size") == ("--batch_size",)
    assert options.flags("seed") == ("--seed", "-s")
    assert options.flags("data") == ()
    assert options.flags("momentum") == ()


def test_what_cannot_be_read_declares_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def (:\n")
    assert Options.of(broken).flags("lr") == ()
    assert Options.of(tmp_path / "none.py").flags("lr") == ()
