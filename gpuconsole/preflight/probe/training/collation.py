"""Batches of a size that is drawn while they are made of samples, as with training at several
scales or with labels that are mixed now and then: each is made as large as the largest of some
trials."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from ..notes import note
from . import seeding

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

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


class Tensors(Protocol):
    """Tensors of batches that are filled with copies, and what making these did to a recording."""

    def spec(self, value: object) -> Hashable:
        """Return what a tensor is made by; None of anything else."""

    def made(self, spec: object) -> object:
        """Return a tensor like the one that was described."""

    def copies(self, make: Callable[[], object], count: int) -> list[object]:
        """Return one copy in the place of many; the recording is as if all had been made."""

    def begin(self) -> None:
        """Copies are made from now on, and then a batch of them."""

    def end(self) -> object:
        """Return what was done since then."""

    def instead(self, done: object) -> None:
        """What was done since then counts as what was done for another batch."""


class Templates:
    """Batches that are filled with copies of one sample, without values that are known: once the
    function that puts samples together has made some alike, later ones are made in their form."""

    def __init__(self, tensors: Tensors | None = None) -> None:
        """`tensors` knows those of batches; without it there is no form of a batch with any."""
        self._tensors = tensors
        self._forms: dict[object, _Form] = {}
        self._key: object = None
        """That of the batch that is being made."""
        self._reuses = False

    def reuses(self, key: object) -> bool:
        """Begin the next batch; tell whether it is made in the form of the ones before. `key` is
        the form of its samples and how many it has."""
        if self._tensors is not None:
            self._tensors.begin()
        form = self._forms.get(key)
        self._key = key
        self._reuses = form is not None and form.count >= SETTLED and form.reused < CHECKED
        if form is not None:
            form.reused += self._reuses
        return self._reuses

    def copies(self, make: Callable[[], object], count: int) -> list[object]:
        """Return copies of a sample for what only reads them: one in the place of all."""
        if self._tensors is None or count < 2:
            return [make() for _ in range(count)]
        return self._tensors.copies(make, count)

    def batch(self, key: object) -> object:
        """Return a batch in the form of the ones before."""
        return _rebuilt(self._forms[key].spec, self._tensors)

    def given(self, batch: object) -> None:
        """The batch that was begun is there, and its samples are gone."""
        if not self._reuses:
            self.made(self._key, batch)
        elif self._tensors is not None:
            self._tensors.instead(self._forms[self._key].done)

    def made(self, key: object, batch: object) -> None:
        """A batch was made of samples."""
        spec = _spec(batch, self._tensors)
        form = self._forms.setdefault(key, _Form(spec))
        form.count = form.count + 1 if spec is not None and spec == form.spec else 0
        form.spec, form.reused = spec, 0
        if self._tensors is not None:
            form.done = self._tensors.end()


class _Form:
    def __init__(self, spec: _Spec | None) -> None:
        self.spec = spec
        self.count = 0
        """Batches in a row that had it."""
        self.reused = 0
        self.done: object = None
        """What was done to make the last of them."""


class _Spec(NamedTuple):
    """Of an array its shape and type; of a tensor what it is made by; of what holds others these;
    of anything else itself."""

    kind: str
    shape: tuple[int, ...] = ()
    names: tuple[object, ...] = ()
    parts: tuple[_Spec, ...] = ()
    value: object = None


def _spec(value: object, tensors: Tensors | None) -> _Spec | None:
    """Return what a batch is made of; None where it holds anything but tensors that can be made,
    arrays and plain values."""
    import numpy

    tensor = None if tensors is None else tensors.spec(value)
    if tensor is not None:
        return _Spec("tensor", value=tensor)
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return _Spec(value.dtype.str, value.shape) if value.dtype.kind in "biufc" else None
    if type(value) in (dict, list, tuple):
        held = cast("dict[object, object] | list[object]", value)
        names = tuple(held) if isinstance(held, dict) else ()
        items = held.values() if isinstance(held, dict) else held
        parts = [_spec(item, tensors) for item in items]
        whole_parts = tuple(part for part in parts if part is not None)
        return _Spec(type(value).__name__, (), names, whole_parts) if all(parts) else None
    return _Spec("", value=value) if type(value) in (str, int, float, bool, type(None)) else None


def _rebuilt(spec: _Spec | None, tensors: Tensors | None) -> object:
    """Return a batch of a form; its arrays take no memory of their size."""
    import numpy

    assert spec is not None
    if spec.kind == "tensor" and tensors is not None:
        return tensors.made(spec.value)
    parts = [_rebuilt(part, tensors) for part in spec.parts]
    if spec.kind in ("list", "tuple"):
        return parts if spec.kind == "list" else tuple(parts)
    if spec.kind == "dict":
        return dict(zip(spec.names, parts))
    if not spec.kind:
        return spec.value
    return numpy.broadcast_to(numpy.zeros((), spec.kind), spec.shape)
