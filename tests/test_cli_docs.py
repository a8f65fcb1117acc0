"""The reference of the commands is written by the commands; this fails when it is stale."""

import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parent.parent / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    return generate


def test_the_reference_is_what_the_commands_say() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == generator().reference(), (
        "run: python docs/generate.py"
    )


def test_the_list_of_commands_is_what_they_say() -> None:
    made = generator()
    assert made.SUMMARIES.read_text(encoding="utf-8") == made.command_summaries(), (
        "run: python docs/generate.py"
    )


def test_the_page_about_themes_is_what_their_model_says() -> None:
    written = (DOCS / "themes.md").read_text(encoding="utf-8")
    assert written == generator().theme_reference(), "run: python docs/generate.py"
    assert "|  |" not in written, "a key without an explanation"
