"""The reference of the commands is written by the commands; this fails when it is stale."""

from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

from rich.segment import Segment
from rich.style import Style

from tests.scripts import script

DOCS = Path(__file__).parents[3] / "docs"


def page(name: str) -> ModuleType:
    return script(DOCS / f"{name}.py")


def generator() -> ModuleType:
    return page("generate")


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


def test_the_page_about_settings_is_what_their_models_say() -> None:
    written = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert written == page("settingspage").page(), "run: python docs/generate.py"
    assert "|  |\n" not in written, "a key without an explanation"
    for row in (
        "`weights.idle`",
        "`limits.idle`",
        "`hosts[].elastic.idle_minutes`",
        "`task.after`",
    ):
        assert f"| {row} |" in written
    assert "| `lease_grace` | `2m` |" in written
    assert "| `code_size_limit` | `256 MiB` |" in written


def test_screens_become_one_picture_in_which_a_line_is_drawn_once() -> None:
    made = page("animation")
    same = (Segment("a < b"),)
    first, second = ((Segment("one", Style(bold=True)),), (Segment("two", Style(reverse=True)),))
    frames = [made.Frame("first", (same, first), 1.0), made.Frame("second", (same, second), 3.0)]
    text = made.animated(frames, "title", mark="SIMULATED")
    root = ElementTree.fromstring(text)
    assert root.get("viewBox") == "0 0 62 80"
    assert text.count("a &lt; b") == 1
    assert len(root.findall(".//{*}use")) == 3
    # What changes is hidden outside of its time: of 4 s the first takes one.
    assert "25.00%{visibility:hidden}" in text
    assert "25.00%{visibility:visible}" in text
    assert text.count("4.00s step-end infinite") == 2
    assert "prefers-reduced-motion" in text
    assert {"title", "SIMULATED", "first", "second"} <= set(root.itertext())
