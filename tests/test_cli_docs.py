"""The reference of the commands is written by the commands; this fails when it is stale."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_reference_is_what_the_commands_say() -> None:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == generate.reference(), (
        "run: python docs/generate.py"
    )
