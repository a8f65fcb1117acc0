"""The namespaces that a script can import: Paddle, NumPy, PIL, the standard modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    UserModule,
    Value,
)
from gpuconsole.preflight.interpreter.libraries import (
    argparse,
    config_dicts,
    cv2,
    network_changes,
    paddlenlp,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy import functions as numpy_functions
from gpuconsole.preflight.interpreter.paddle import namespace as paddle_namespace
from gpuconsole.preflight.interpreter.paddle.vision import transforms
from gpuconsole.preflight.interpreter.stdlib import no_effect
from gpuconsole.preflight.interpreter.stdlib import registry as stdlib_registry


def _modules(run: Run) -> dict[str, Callable[[], Namespace]]:
    return {
        **stdlib_registry.modules(run), "argparse": argparse.namespace,
        "click": lambda: _command_lines().click(run), "typer": lambda: _command_lines().typer(),
        "fire": lambda: _command_lines().fire(),
    }  # fmt: skip


def _command_lines() -> Any:
    # Few scripts need it, and every estimate would pay for loading it.
    from gpuconsole.preflight.interpreter.libraries import click_typer_fire

    return click_typer_fire


def _set_up_with(name: str, run: Run) -> Namespace | None:
    """Return a module that scripts set themselves up with; None when it is not modelled."""
    root, *path = name.split(".")
    if root in network_changes.CHANGING:
        return network_changes.Module(name)
    maker = _modules(run).get(root)
    found: Value = config_dicts.namespace_for(root) if maker is None else maker()
    if found is None and (root in no_effect.SILENT or root in no_effect.OPAQUE):
        return Namespace(name, quiet=root in no_effect.SILENT)
    if root in ("tqdm", "typing"):
        return found if isinstance(found, Namespace) else None
    for part in path if found is not None else ():
        found = found.names.get(part)
        if not isinstance(found, Namespace):
            return None
    return found if isinstance(found, Namespace) else None


def library(run: Run) -> Callable[[str], Value]:
    """Return the importer of modelled libraries for a run."""
    made: dict[str, Any] = {}

    def find(name: str) -> Value:
        if name in made:
            return made[name]
        root, *path = name.split(".")
        found: Value
        if root == "paddle":
            found = (
                made.setdefault("paddle", paddle_namespace.paddle(run))
                if "paddle" not in made
                else made["paddle"]
            )
        elif root == "numpy":
            known = made.get(root)
            found = known or made.setdefault(root, numpy_functions.namespace())
        elif root == "paddlenlp":
            found = made.get(root) or made.setdefault(root, paddlenlp.paddlenlp(run))
        elif root == "PIL":
            found = transforms.pil()
        elif root == "cv2":
            found = cv2.namespace()
        else:
            found, path = _set_up_with(name, run), []
        for part in path if found is not None else ():
            found = found.find(part) if isinstance(found, Namespace) else None
        if root in ("paddle", "numpy", "paddlenlp") and not path:
            made[root] = found
        made[name] = found if isinstance(found, (Namespace, UserModule)) else None
        return made[name]

    return find
