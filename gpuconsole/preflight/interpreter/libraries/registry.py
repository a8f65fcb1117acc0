"""The namespaces that a script can import: Paddle, NumPy, PIL, the standard modules."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    NativeFunction,
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
        "pydantic": _pydantic, "scipy": _scipy,
    }  # fmt: skip


def _command_lines() -> ModuleType:
    # Few scripts need it, and every estimate would pay for loading it.
    from gpuconsole.preflight.interpreter.libraries import click_typer_fire

    return click_typer_fire


def _scipy() -> Namespace:
    """Return of SciPy what reads and writes files of MATLAB; what they hold is not read."""

    def loaded(run: Run, *_: Value, **__: Value) -> Value:
        return run.unknown("what a file of MATLAB holds")

    names: dict[str, Value] = {
        "loadmat": NativeFunction(loaded, "loadmat"),
        "whosmat": NativeFunction(loaded, "whosmat"),
        "savemat": NativeFunction(stdlib_registry.quiet_function, "savemat"),
    }
    return Namespace("scipy", {"io": Namespace("scipy.io", names)})


def _pydantic() -> Namespace:
    # As command lines are.
    from gpuconsole.preflight.interpreter.libraries import pydantic

    return pydantic.namespace()


def _set_up_with(name: str, run: Run) -> Namespace | None:
    """Return a module that scripts set themselves up with; None when it is not modelled."""
    root, *path = name.split(".")
    if root in network_changes.CHANGING:
        return network_changes.Module(name)
    maker = _modules(run).get(root)
    namespace: Value = config_dicts.namespace_for(root) if maker is None else maker()
    if namespace is None and (root in no_effect.SILENT or root in no_effect.OPAQUE):
        return Namespace(name, quiet=root in no_effect.SILENT)
    if root in ("tqdm", "typing"):
        return namespace if isinstance(namespace, Namespace) else None
    for part in path if namespace is not None else ():
        namespace = namespace.names.get(part)
        if not isinstance(namespace, Namespace):
            return None
    return namespace if isinstance(namespace, Namespace) else None


def library(run: Run) -> Callable[[str], Value]:
    """Return the importer of modelled libraries for a run."""
    namespaces: dict[str, Namespace | UserModule | None] = {}

    def find(name: str) -> Value:
        if name in namespaces:
            return namespaces[name]
        root, *path = name.split(".")
        value: Value
        if root == "paddle":
            value = (
                namespaces.setdefault("paddle", paddle_namespace.paddle(run))
                if "paddle" not in namespaces
                else namespaces["paddle"]
            )
        elif root == "numpy":
            existing = namespaces.get(root)
            value = existing or namespaces.setdefault(root, numpy_functions.namespace())
        elif root == "paddlenlp":
            value = namespaces.get(root) or namespaces.setdefault(root, paddlenlp.paddlenlp(run))
        elif root == "PIL":
            value = transforms.pil()
        elif root == "cv2":
            value = cv2.namespace()
        else:
            value, path = _set_up_with(name, run), []
        for part in path if value is not None else ():
            value = value.find(part) if isinstance(value, Namespace) else None
        if root in ("paddle", "numpy", "paddlenlp") and not path:
            namespaces[root] = value
        namespaces[name] = value if isinstance(value, (Namespace, UserModule)) else None
        return namespaces[name]

    return find
