"""Files that the script needs and that are not there: made when they are asked for.

Only where the script could not go on: where it opens a file that is missing and handles no error,
asserts that it exists, or raises where it does not. What is made lies in the project's copy, which
is thrown away; the answer says so. Files with content that decides shapes, and of no usual form
(arrays, tables), are never made up.
"""

from __future__ import annotations

import glob
import importlib.abc
import importlib.util
import os
import pathlib
import re
import sys
from typing import TYPE_CHECKING

from ..notes import note
from . import exception_handlers, made_up_content, made_up_lines, safe_writes, sentencepiece_models

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from os import PathLike
    from types import FrameType, ModuleType

    Path = str | bytes | PathLike[str]

_ERRORS = ("OSError", "IOError", "EnvironmentError", "FileNotFoundError")
_HERE = (__file__, os.path.__file__, pathlib.__file__, getattr(os.path, "genericpath").__file__)  # noqa: B009
_WALKING = (*_HERE, os.__file__, glob.__file__)
_PICTURES_LISTED, _NESTED = 256, 16
_LISTED = {"a picture": 1, "annotations": 2, "a list": 3}
"""Kinds of files of which a folder may be full, those it rather is first."""
MADE_UP = "Data made up"
_PICTURES = f"pictures of {made_up_content.WIDTH} x {made_up_content.HEIGHT}"


class Maker:
    """Makes files and folders below a project, and below folders outside that it names."""

    def __init__(self, root: str, outside: Iterable[str] = ()) -> None:
        self.root = os.path.join(os.path.realpath(root), "")
        self.roots = (
            self.root,
            *(os.path.join(os.path.realpath(folder), "") for folder in outside),
        )
        self.folders: set[str] = set()
        self.lists: set[str] = set()
        """Files of lines that were made."""
        self.busy = False
        self.exists = os.path.lexists

    def inside(self, path: object) -> str | None:
        """Return a path in full where something may be made there, else None."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None
        full = os.path.abspath(os.fsdecode(path))
        return full if full.startswith(self.roots) and not self.exists(full) else None

    def file(self, full: str, kind: str | None = None) -> bool:
        """Make a file; returns whether it could be."""
        kind = kind or made_up_content.kind_of(full)
        if kind is None:
            return False
        data = made_up_content.picture(True) if kind == "a mask" else made_up_content.content_of(
            full if kind != "annotations" or full.endswith(".json") else ".xml"
        )  # fmt: skip
        return self._write(full, data, kind)

    def _write(self, full: str, data: bytes, kind: str) -> bool:
        try:
            safe_writes.write(self.root_of(full), full, data)
        except OSError:
            return False
        if kind == "a list":
            self.lists.add(full)
        self._tell(full, kind)
        return True

    def root_of(self, full: str) -> str:
        """Return the folder below which a path is; those outside may hold one another."""
        return max(
            (root for root in self.roots if full.startswith(root)), key=len, default=self.root
        )

    def _tell(self, full: str, kind: str) -> None:
        if self.is_made(full):
            return
        if kind == "a picture":
            # One word for all pictures of a folder.
            folder = os.path.dirname(full)
            self.folders.add(folder)
            full, kind = os.path.join(folder, "*"), _PICTURES
        shown = os.path.relpath(full, self.root) if full.startswith(self.root) else full
        note(f"{MADE_UP}: {shown} is not here; in its place: {kind}.")

    def folder(self, full: str) -> bool:
        """Make a folder; returns whether it could be. Hidden ones hold settings, such as the fonts
        of a home, and no data."""
        if any(part.startswith(".") for part in full[len(self.root_of(full)) :].split(os.sep)):
            return False
        try:
            with safe_writes.opened(self.root_of(full), full):
                pass
        except OSError:
            return False
        self._tell(full, _PICTURES)
        self.folders.add(full)
        return True

    def fill(self, full: str, classes: bool, looked_for: Collection[str] = ()) -> None:
        """Put files into an empty folder, in folders of classes where these are looked for:
        pictures, or if others alone are `looked_for` by their endings, such as can be made."""
        if os.listdir(full):
            return
        parts = (
            [f"class{number}" for number in range(made_up_content.CLASSES)] if classes else ["."]
        )
        kinds = sorted(filter(_rank, looked_for), key=_rank)
        suffix = kinds[0] if kinds else ".jpg"
        count = _NESTED if self.is_made(full) else _PICTURES_LISTED
        names = [made_up_content.name_of(full, number) + suffix for number in range(count)]
        paths = [os.path.join(part, name) for part in parts for name in names]
        with safe_writes.opened(self.root_of(full), full) as folder:
            for part in parts:
                if part != ".":
                    os.mkdir(part, dir_fd=folder)
            held = made_up_content.content_of(os.path.join(full, paths[0]))
            safe_writes.write_in(folder, paths[0], held)
            for path in paths[1:]:
                os.link(paths[0], path, src_dir_fd=folder, dst_dir_fd=folder)

    def matching(self, pattern: str) -> None:
        """Make files of a pattern, where that tells what they hold."""
        parts = os.path.abspath(pattern).split(os.sep)
        wild = next((at for at, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
        base = os.sep.join(parts[:wild])
        new = self.inside(base) or (base in self.folders or self.is_made(base))
        if not new or made_up_content.kind_of(pattern) in (None, "weights", "an archive"):
            return
        for number in range(_PICTURES_LISTED):
            names = [re.sub(r"\*+|\[[^]]*\]|\?", f"made{number}", part) for part in parts[wild:-1]]
            own = made_up_content.name_of(base, number)
            name = re.sub(r"\*+|\[[^]]*\]|\?", own, parts[-1])
            self.file(
                os.path.join(base, *(name_.replace(str(number), "") for name_ in names), name)
            )

    def is_made(self, full: str) -> bool:
        """Tell whether a path is below a folder that was made."""
        return any(full.startswith(os.path.join(folder, "")) for folder in self.folders)


def _rank(suffix: str) -> int:
    """Return the place of an ending among those of files in a folder, 0 where it has none."""
    return _LISTED.get(made_up_content.kind_of(suffix) or "", 0)


def install(root: str, outside: Iterable[str] = ()) -> None:
    """Make what is missing below a folder, and below others outside, from now on."""
    maker = Maker(root, outside)
    sys.addaudithook(lambda event, args: heard(maker, event, args))
    for module, name in ((os.path, "exists"), (os.path, "isfile"), (os.path, "isdir")):
        _answer(maker, module, name, name == "isdir")
    for name in ("exists", "is_file", "is_dir"):
        _answer(maker, pathlib.Path, name, name == "is_dir")
    for name in ("glob", "iglob"):
        _search(maker, glob, name, lambda pattern, *_: pattern)
    for name in ("glob", "rglob"):
        _search(maker, pathlib.Path, name, os.path.join)
    made_up_lines.install(maker.lists)
    when_imported("sentencepiece", sentencepiece_models.serve)
    when_imported("cv2", lambda module: _reads(maker, module, "imread"))


def heard(maker: Maker, event: str, args: tuple[object, ...]) -> None:
    """Something is about to be opened or listed."""
    if event not in ("open", "os.listdir", "os.scandir") or maker.busy:
        return
    maker.busy = True
    try:
        if event == "open":
            flags = args[2]
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if isinstance(args[0], (str, bytes)) and not writes:
                opened(maker, args[0])
        else:
            listed(maker, args[0], _looks_for_classes(event), exception_handlers.caller(_WALKING))
    except (OSError, ImportError):
        # No room, or nothing to draw pictures with: the script meets what is there.
        return
    finally:
        maker.busy = False


def opened(maker: Maker, path: object, usual: str | None = None) -> None:
    """Make a file that is opened for reading and could not be; `usual` is its kind where its name
    does not say one."""
    full = maker.inside(path)
    if full is None:
        return
    frame = exception_handlers.caller(_HERE)
    kind = made_up_content.kind_of(full) or usual or _by_reader(frame)
    if kind is not None and not exception_handlers.is_caught(frame, _ERRORS):
        maker.file(full, kind)


def _by_reader(frame: FrameType | None) -> str | None:
    """Return what a library that opens a file without a suffix takes it for."""
    file = "" if frame is None else frame.f_code.co_filename
    if os.path.join("PIL", "") in file:
        return "a mask"
    return "annotations" if os.path.join("xml", "etree") in file else None


def listed(maker: Maker, path: object, classes: bool, frame: FrameType | None = None) -> None:
    """Make a folder that is listed and could not be; fill one that was made. A `frame` asks."""
    full = maker.inside(path or ".")
    if full is not None and not exception_handlers.is_caught(frame, _ERRORS):
        maker.folder(full)
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    there = os.path.abspath(os.fsdecode(path))
    if os.path.isfile(there) and maker.is_made(there):
        # What was taken for a picture is listed: these are folders of classes.
        safe_writes.remove(maker.root_of(there), there)
        maker.folder(there)
    if there in maker.folders:
        maker.fill(there, classes, exception_handlers.suffixes(frame))


def _looks_for_classes(event: str) -> bool:
    """Tell whether Paddle's own data set of folders looks for those of its classes."""
    frame = exception_handlers.caller(_HERE)
    asking: str = "" if frame is None else frame.f_globals.get("__name__", "")
    return event == "os.scandir" and asking.startswith("paddle.")


def _answer(maker: Maker, place: ModuleType | type, name: str, folder: bool) -> None:
    """Make what is asked for where the script ends without it."""
    old = getattr(place, name)

    def asked(path: Path, *args: object, **kwargs: object) -> object:
        answer = old(path, *args, **kwargs)
        if answer or maker.busy:
            return answer
        full = maker.inside(path)
        if full is None:
            return answer
        kind = made_up_content.kind_of(full)
        needed = maker.is_made(full) and kind is not None
        if not needed and not exception_handlers.is_required(exception_handlers.caller(_HERE)):
            return answer
        maker.busy = True
        try:
            plain = kind is None and name != "isfile" and not os.path.splitext(full)[1]
            return maker.folder(full) if folder or plain else maker.file(full)
        finally:
            maker.busy = False

    setattr(place, name, asked)


def _search(
    maker: Maker, place: ModuleType | type, name: str, pattern_of: Callable[..., str]
) -> None:
    """Make files that are searched for by a pattern in a folder that is not there, or was made."""
    old = getattr(place, name)

    def searched(*args: object, **kwargs: object) -> object:
        paths = list(old(*args, **kwargs))
        if paths or maker.busy:
            return paths if name == "glob" and place is glob else iter(paths)
        maker.busy = True
        try:
            maker.matching(os.fsdecode(pattern_of(*args)))
        finally:
            maker.busy = False
        return old(*args, **kwargs)

    setattr(place, name, searched)


def _reads(maker: Maker, module: ModuleType, name: str) -> None:
    """Let a reader that opens files outside of Python find what was made."""
    old = getattr(module, name)

    def imread(path: str, *args: object, **kwargs: object) -> object:
        maker.busy = True
        try:
            opened(maker, path, "a mask")
        finally:
            maker.busy = False
        return old(path, *args, **kwargs)

    setattr(module, name, imread)


def when_imported(name: str, change: Callable[[ModuleType], object]) -> None:
    """Change a module once it is loaded, which may be already."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, WhenImported(name, change))


class WhenImported(importlib.abc.MetaPathFinder):
    """Changes a module as soon as it has been loaded."""

    def __init__(self, name: str, change: Callable[[ModuleType], object]) -> None:
        self.name = name
        self.change = change
        self.looking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the module's own spec, with a loader that changes it."""
        if name != self.name or self.looking:
            return None
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        load, change = spec.loader.exec_module, self.change

        def exec_module(module: ModuleType) -> None:
            load(module)
            change(sys.modules.get(name, module))

        setattr(spec.loader, "exec_module", exec_module)  # noqa: B010
        return spec
