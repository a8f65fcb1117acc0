"""A button below an answer, where the front end has ipywidgets."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from IPython import display as front_end

from gpuconsole.errors import ConsoleError
from gpuconsole.notebook.html import joined, tag
from gpuconsole.notebook.views import View


def can_show() -> bool:
    """Tell whether the kernel has ipywidgets; a page without them shows a line of text."""
    return find_spec("ipywidgets") is not None


def show_button(label: str, act: Callable[[], View]) -> None:
    """Show a button that does `act` once and shows what it returns. After an error, which is shown
    too, it may be pressed again."""
    import ipywidgets

    button = ipywidgets.Button(description=label)
    said = ipywidgets.HTML()

    def pressed(_: object) -> None:
        button.disabled = True
        try:
            said.value = act().bundle()["text/html"]
        except ConsoleError as error:
            lines = (f"{error.title}: {error.message}", *error.hint.splitlines())
            said.value = joined(tag("div", line) for line in lines)
            button.disabled = False

    button.on_click(pressed)
    front_end.display(ipywidgets.VBox([button, said]))  # type: ignore[no-untyped-call]
