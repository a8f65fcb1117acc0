"""Checking and writing documents of a type, prepared when the first one comes.

Pydantic takes milliseconds to prepare for a type, and a protocol has dozens of which most processes
use a few.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar, cast, overload

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class Adapter(Generic[T]):
    """Pydantic's `TypeAdapter` of a type."""

    @overload
    def __init__(self, kind: type[T]) -> None: ...

    @overload
    # A union is a type for pydantic, and none for a type checker.
    def __init__(self, kind: object) -> None: ...

    def __init__(self, kind: object) -> None:
        """`kind` may be any type that pydantic has a schema for, such as `int | None`."""
        self._kind = kind

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        from pydantic import TypeAdapter

        return TypeAdapter(cast("type[T]", self._kind))

    def validate_json(self, document: str | bytes | bytearray) -> T:
        """Return what a document of JSON says; pydantic's ValidationError where it is none."""
        return self._adapter.validate_json(document)

    def validate_python(self, value: object) -> T:
        """Return a value in the form of the type; pydantic's ValidationError where it has none."""
        return self._adapter.validate_python(value)

    def dump_json(self, value: T) -> bytes:
        """Return a value as JSON."""
        return self._adapter.dump_json(value)
