"""Batches of a size that is drawn while they are made of samples, as with training at several
scales or with labels that are mixed now and then: each is made as large as the largest of some
trials."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple, cast

from ..notes import note
from . import seeding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAIR = 2
"""Samples of a trial: what is drawn for a batch does not depend on how many it has."""
FEW, TRIALS = 8, 64
"""Trials after which batches of one size are taken to be so always, and trials of the others."""


class Drawn:
    """The places from which the largest batches are drawn, in the order in which loaders were first
    used: in another run of the script they are the same, and need not be looked for again."""

    def __init__(self, given: Sequence[int | None] = ()) -> None:
        self.given = given
        self.found: list[int | None] = []

    def next(self, find: Callable[[], int | None]) -> int | None:
        """Return the place of the next loader, `find()` where another run has not reported it."""
        is_given = len(self.found) < len(self.given)
        self.found.append(self.given[len(self.found)] if is_given else find())
        return self.found[-1]


class Collate:
    """Makes a batch of samples."""

    def __init__(
        self,
        inner: Callable[[Sequence[object]], object],
        flags: set[str],
        extent: Callable[[object], int],
        drawn: Drawn | None = None,
    ) -> None:
        """`inner` is the script's own function, `extent` tells how large a batch is, `drawn` what
        another run has found."""
        self.inner = inner
        self.flags = flags
        self.extent = extent
        self.drawn = drawn or Drawn()
        self.tried = False
        self.place: int | None = None
        """What is drawn for the largest batch."""

    def __call__(self, samples: Sequence[object]) -> object:
        """Return a batch."""
        if not self.tried:
            self.tried = True
            before = seeding.state()
            self.place = self.drawn.next(lambda: self.largest(samples[:PAIR]))
            seeding.restore(before)
            if self.place is not None:
                self.told()
        if self.place is not None:
            seeding.alike(self.place)
        return self.inner(samples)

    def largest(self, samples: Sequence[object]) -> int | None:
        """Return the place from which the largest batch is drawn, None where all are alike."""
        sizes: list[int] = []
        for place in range(TRIALS):
            if place == FEW and len(set(sizes)) == 1:
                return None
            seeding.alike(place)
            try:
                sizes.append(self.extent(self.inner(copy.deepcopy(samples))))
            except Exception:
                # It cannot be tried with so few, or not twice.
                return None
        return sizes.index(max(sizes))

    def told(self) -> None:
        """Say that batches differ in size."""
        self.flags.add("variable-shape")
        note(
            f"Batches differ in size by what is drawn for them: each is as large as the largest of "
            f"{TRIALS} that were tried.",
            about="batches",
        )


SETTLED = 2
"""Batches of copies that are made alike by a script's own function before others are not made."""
CHECKED = 32
"""Batches that are not made until one is, to see whether they are still alike."""


class Templates:
    """Batches that are filled with copies of one sample, without values that are known: once the
    function that puts samples together has made some alike, later ones are made in their form."""

    def __init__(self) -> None:
        self._forms: dict[object, _Form] = {}

    def reuses(self, key: object) -> bool:
        """Tell whether the next batch is made in the form of the ones before; `key` is the form of
        its samples and how many it has."""
        form = self._forms.get(key)
        if form is None or form.count < SETTLED or form.reused >= CHECKED:
            return False
        form.reused += 1
        return True

    def batch(self, key: object) -> object:
        """Return a batch in the form of the ones before."""
        return _rebuilt(self._forms[key].spec)

    def made(self, key: object, batch: object) -> None:
        """A batch was made of samples."""
        spec = _spec(batch)
        form = self._forms.setdefault(key, _Form(spec))
        form.count = form.count + 1 if spec is not None and spec == form.spec else 0
        form.spec, form.reused = spec, 0


class _Form:
    def __init__(self, spec: _Spec | None) -> None:
        self.spec = spec
        self.count = 0
        """Batches in a row that had it."""
        self.reused = 0


class _Spec(NamedTuple):
    """Of an array its shape and type; of what holds others these; of anything else itself."""

    kind: str
    shape: tuple[int, ...] = ()
    names: tuple[object, ...] = ()
    parts: tuple[_Spec, ...] = ()
    value: object = None


def _spec(value: object) -> _Spec | None:
    """Return what a batch is made of; None where it holds anything but arrays and plain values."""
    import numpy

    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return _Spec(value.dtype.str, value.shape) if value.dtype.kind in "biufc" else None
    if type(value) in (dict, list, tuple):
        held = cast("dict[object, object] | list[object]", value)
        names = tuple(held) if isinstance(held, dict) else ()
        items = held.values() if isinstance(held, dict) else held
        parts = [_spec(item) for item in items]
        whole_parts = tuple(part for part in parts if part is not None)
        return _Spec(type(value).__name__, (), names, whole_parts) if all(parts) else None
    return _Spec("", value=value) if type(value) in (str, int, float, bool, type(None)) else None


def _rebuilt(spec: _Spec | None) -> object:
    """Return a batch of a form; its arrays take no memory of their size."""
    import numpy

    assert spec is not None
    parts = [_rebuilt(part) for part in spec.parts]
    if spec.kind in ("list", "tuple"):
        return parts if spec.kind == "list" else tuple(parts)
    if spec.kind == "dict":
        return dict(zip(spec.names, parts))
    if not spec.kind:
        return spec.value
    return numpy.broadcast_to(numpy.zeros((), spec.kind), spec.shape)
