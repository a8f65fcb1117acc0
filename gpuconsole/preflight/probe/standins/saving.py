"""What a script saves where the sandbox has no room for it: it goes on without."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from typing import TYPE_CHECKING

from ..notes import note

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def install(paddle: ModuleType) -> None:
    """Let `paddle.save` leave out what the sandbox has no room for: the files of a run are thrown
    away after it, and no memory of it depends on them."""
    setattr(paddle, "save", roomy(paddle.save))  # noqa: B010


def roomy(save: Callable[..., object]) -> Callable[..., object]:
    """Return a function that saves, and that leaves no part of a file where there is no room."""

    @functools.wraps(save)
    def saved(obj: object, path: str, *given: object, **options: object) -> object:
        try:
            return save(obj, path, *given, **options)
        except OSError as error:
            if error.errno not in FULL or not isinstance(path, (str, os.PathLike)):
                raise
        with contextlib.suppress(OSError):
            os.remove(path)
        note("What the script saves is larger than what it may write here, and was left out.")
        return None

    return saved
