"""Writes the blocking face of the Python API from the session itself.

    python tools/blocking_api.py [--check]

Each public member of `Session`, but for those of `NOT_CALLED`, becomes one of `BlockingSession`
with the same call and words: a coroutine is awaited on the session's loop, an asynchronous iterator
becomes an iterator; the session's images likewise. Of docstrings the first paragraph is written:
`gpuconsole/api/blocking.py` takes the rest from the session when it is imported. Its parts between
two markers are written; `--check` exits 1 where they are not as they would be written.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOM = Path(__file__).resolve().parents[1] / "gpuconsole"
FACE = ROOM / "api" / "blocking.py"
FACES = {
    "BlockingImages": ("session/images/service.py", "Imaging"),
    "BlockingSession": ("session/session.py", "Session"),
}
"""What is written: the class of the face, and what it is the face of."""
NOT_CALLED = {
    "Session.elsewhere": "of no use once the session is open",
    "Session.attach": "a terminal is used from the event loop",
    "Session.queue_of": "only the lab's service acts for others",
    "Session.store": "only the lab's service queues what others have packed",
    "Session.record_act": "acts of programs that act for the user are recorded by these",
    "Session.first_frames": "`status` does it",
    "Session.look_around": "`why` and `what_if` do it",
    "Session.usage_report": "`report` does it",
    "Session.held_elsewhere": "`why` names who holds the devices",
    "Session.lost": "every call raises it",
    "Imaging.learned": "placement asks for it",
    "Imaging.image_of": "placement asks for it",
    "Imaging.doubts": "the lists of images ask for it",
}
"""Public members that users of the API have no use for, and why."""
MARK, END = "    # -- written by tools/blocking_api.py: ", "    # -- end of what is written"


def written(text: str) -> str:
    """Return the module `text` with its faces as their sessions are now."""
    for face, (path, name) in FACES.items():
        tree = ast.parse((ROOM / path).read_text("utf-8"))
        before, mark, rest = text.partition(f"{MARK}{face}\n")
        _, _, after = rest.partition(END)
        members = "\n\n".join(_members(tree, name))
        text = f"{before}{mark}\n{members}\n\n{END}{after}"
    return text


def _members(tree: ast.Module, kind: str) -> Iterator[str]:
    (found,) = (node for node in tree.body if getattr(node, "name", "") == kind)
    assert isinstance(found, ast.ClassDef)
    for node, below in zip(found.body, [*found.body[1:], None], strict=True):
        member = ""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name[0] != "_" and f"{kind}.{node.name}" not in NOT_CALLED:
                member = _member(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr):
            member = _attribute(node, below)
        if member:
            yield "\n".join(f"    {line}" if line else "" for line in member.splitlines())


def _attribute(node: ast.AnnAssign, below: ast.Expr) -> str:
    """Return the source of a property for an attribute and the words below it."""
    name, kind = ast.unparse(node.target), ast.unparse(node.annotation)
    said = below.value.value if isinstance(below.value, ast.Constant) else ""
    faces = {theirs: face for face, (_, theirs) in FACES.items()}
    value = f"self._lab.{name}"
    if kind in faces:
        kind, value = faces[kind], f"{faces[kind]}(self, {value})"
    return f'@property\ndef {name}(self) -> {kind}:\n    """{said}"""\n    return {value}'


def _member(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the source of a method or property that forwards to the session's own."""
    names = [one.id for one in node.decorator_list if isinstance(one, ast.Name)]
    said = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", f"\n{' ' * 4}")
    assert node.returns is not None
    returns = ast.unparse(node.returns)
    call = f"self._lab.{node.name}"
    if "property" not in names:
        call += f"({_passed(node.args)})"
    if returns.startswith("AsyncIterator["):
        body, returns = f"self._each({call})", returns.removeprefix("Async")
    elif isinstance(node, ast.AsyncFunctionDef):
        body = f"self._call({call})"
    else:
        body = f"self._ask(lambda: {call})"
    head = [f"@{name}" for name in names]
    head.append(f"def {node.name}({ast.unparse(node.args)}) -> {returns}:")
    return "\n".join((*head, f'    """{said}"""', f"    return {body}"))


def _passed(given: ast.arguments) -> str:
    """Return the arguments of a call that passes all parameters on."""
    names = [one.arg for one in given.args[1:]]
    names += [f"{one.arg}={one.arg}" for one in given.kwonlyargs]
    if given.kwarg is not None:
        names.append(f"**{given.kwarg.arg}")
    return ", ".join(names)


def main() -> int:
    """Write the face, or with `--check` say whether it is as it would be written."""
    text = FACE.read_text("utf-8")
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FACE), "-"],
        input=written(text), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    if "--check" in sys.argv[1:]:
        return int(formatted != text)
    FACE.write_text(formatted, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
