"""`hashlib`, `zlib`, `struct` and `base64`: what they make of bytes that a script states."""

from __future__ import annotations

import base64 as real_base64
import hashlib as real_hashlib
import struct as real_struct
import zlib as real_zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeFunction,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run import Run

MAX_BYTES = 2**20
ALGORITHMS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s")


class Digest(Native):
    """A hash of bytes."""

    label = "hash"

    def __init__(self, known: Any = None) -> None:
        super().__init__()
        self.known = known

    def do_update(self, run: Run, data: Value) -> None:
        """Take more bytes; of what is not known nothing is known from then on."""
        if isinstance(data, bytes) and self.known is not None:
            self.known.update(data)
        else:
            self.known = None

    def _told(self, run: Run, name: str) -> Value:
        if self.known is None:
            return run.unknown("a hash of data")
        return getattr(self.known, name)()

    def do_hexdigest(self, run: Run) -> Value:
        """Give it as text."""
        return self._told(run, "hexdigest")

    def do_digest(self, run: Run) -> Value:
        """Give it as bytes."""
        return self._told(run, "digest")


def _begun(algorithm: str, run: Run, data: Value = b"", **_: Value) -> Value:
    made = Digest(real_hashlib.new(algorithm))
    made.do_update(run, data)
    return made


def _named(run: Run, algorithm: Value, data: Value = b"", **_: Value) -> Value:
    if algorithm not in ALGORITHMS:
        return run.unknown("a hash of a kind that is not known")
    return _begun(algorithm, run, data)


def _of_bytes(function: Callable[..., Any]) -> Callable[..., Value]:
    def call(run: Run, *args: Value) -> Value:
        plain = all(isinstance(one, (int, float, str, bytes)) for one in args)
        if not plain or any(len(one) > MAX_BYTES for one in args if isinstance(one, (str, bytes))):
            return run.unknown("what is made of bytes that are not known", first_unknown(*args))
        return function(*args)

    return call


def _space(name: str, table: dict[str, Callable[..., Value]]) -> Namespace:
    return Namespace(name, {key: NativeFunction(one, f"{name}.{key}") for key, one in
                            table.items()})  # fmt: skip


def hashlib() -> Namespace:
    """Return `hashlib`."""
    return _space("hashlib", {**{one: partial(_begun, one) for one in ALGORITHMS}, "new": _named})


def zlib() -> Namespace:
    """Return `zlib`, but for what makes long texts of short ones."""
    return _space("zlib", {one: _of_bytes(getattr(real_zlib, one)) for one in ("crc32", "adler32")})


def struct() -> Namespace:
    """Return `struct`."""

    def sized(name: str) -> Callable[..., Value]:
        call = _of_bytes(getattr(real_struct, name))

        def bounded(run: Run, form: Value, *args: Value) -> Value:
            long = not isinstance(form, str) or real_struct.calcsize(form) > MAX_BYTES
            return run.unknown("bytes of an unknown form") if long else call(run, form, *args)

        return bounded

    return _space("struct", {one: sized(one) for one in ("calcsize", "pack", "unpack",
                                                         "unpack_from")})  # fmt: skip


def base64() -> Namespace:
    """Return `base64`."""
    names = ("b64encode", "b64decode", "urlsafe_b64encode", "b32encode", "b16encode")
    return _space("base64", {one: _of_bytes(getattr(real_base64, one)) for one in names})
