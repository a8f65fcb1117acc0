"""The namespaces that a script can import: Paddle, NumPy, PIL, the standard modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    NativeFunction,
    UserModule,
    Value,
)
from gpuconsole.preflight.interpreter.libraries import argparse, config_dicts, cv2, paddlenlp
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy import functions as numpy_functions
from gpuconsole.preflight.interpreter.numpy.random import RandomModule
from gpuconsole.preflight.interpreter.paddle import namespace as paddle_namespace
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.vision import transforms
from gpuconsole.preflight.interpreter.stdlib import no_effect
from gpuconsole.preflight.interpreter.stdlib import registry as stdlib_registry
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run


CHANGING = frozenset(["paddleslim"])
"""Roots of modules that change the networks they are given."""


class Changer(Silent):
    """Anything of such a module: without effect until it is given a network."""

    label = "what changes networks"

    def anything(self, run: Run, name: str) -> Value:
        """Give whatever is asked for."""
        return Changer()

    def call(self, interp: Interpreter, *args: Value, **kwargs: Value) -> Value:
        """Return another; the memory of a network among its arguments is unknown."""
        if not _networks((*args, *kwargs.values())):
            return Changer()
        why = interp.run.gap("a network is pruned or quantized, which the analysis does not follow")
        interp.run.block(why)
        return why


class Module(Namespace):
    """The module itself."""

    def find(self, name: str) -> Value:
        """Return whatever is asked for."""
        return Changer()


def _networks(values: Iterable[Value]) -> bool:
    return any(isinstance(value, Layer) for value in values)


def _modules(run: Run) -> dict[str, Callable[[], Namespace]]:
    return {
        **stdlib_registry.modules(run), "argparse": argparse.namespace,
        "scipy": _scipy,
    }  # fmt: skip


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


def _set_up_with(name: str, run: Run) -> Namespace | None:
    """Return a module that scripts set themselves up with; None when it is not modelled."""
    root, *path = name.split(".")
    if root in CHANGING:
        return Module(name)
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
    namespaces: dict[str, Namespace | UserModule | RandomModule | None] = {}

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
        modules = (Namespace, UserModule, RandomModule)
        namespaces[name] = value if isinstance(value, modules) else None
        return namespaces[name]

    return find
