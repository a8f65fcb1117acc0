"""Writing an image's name into a task file, and changing nothing else in it."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from gpuconsole.core.wording import msg
from gpuconsole.errors import DocumentError, UsageError


def write_image(path: Path, reference: str) -> None:
    """Set `task.image` of a task file; comments and all other lines stay as they are.

    UsageError when the file cannot be read or written, DocumentError when it is no task file.
    """
    try:
        before = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "Task file cannot be read", msg("{path}: {error}", path=path, error=error), ""
        ) from None
    after = changed(before, reference, str(path))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(after, "utf-8")
        draft.chmod(path.stat().st_mode & 0o777)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(
            "Task file cannot be written",
            msg("{path}: {strerror}", path=path, strerror=error.strerror),
            "",
        ) from None


def changed(text: str, reference: str, where: str) -> str:
    """Return a task file's text with another image; DocumentError when it is none."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise DocumentError(
            "Task file is wrong", msg("{where}: {error}", where=where, error=error), ""
        ) from None
    task = _value(root, "task")
    if not isinstance(task, yaml.MappingNode) or not task.value:
        raise DocumentError(
            "No task", msg("{where}:1:1: there is no `task:` to change.", where=where), ""
        )
    image = _value(task, "image")
    if image is not None:
        start, end = image.start_mark.index, image.end_mark.index
        return text[:start] + reference + text[end:]
    first = task.value[0][0].start_mark
    if task.flow_style:
        return f"{text[: first.index]}image: {reference}, {text[first.index :]}"
    return f"{text[: first.index]}image: {reference}\n{' ' * first.column}{text[first.index :]}"


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)
