"""Arrays that a script puts together batch by batch, as the meta tier sees them."""

from __future__ import annotations

import numpy
import pytest

from gpuconsole.preflight.meta.ledger import Ledger
from gpuconsole.preflight.meta.script.host_arrays import Lengthened
from gpuconsole.preflight.meta.script.kept import Keeping

ROW = numpy.zeros((64, 16), "float32")


def joined(keeping: Keeping, name: str, **named: int) -> None:
    """Put ten rows together, one for each batch that reader 1 is asked for."""
    join = keeping.lengthened.watched(getattr(numpy, name))
    whole = ROW
    for _ in range(10):
        keeping.asked(1)
        whole = join(*([whole, ROW] if name == "append" else [(whole, ROW)]), **named)  # type: ignore[assignment]


def keeping() -> Keeping:
    return Keeping(Ledger(), lambda: 0, lambda words: None)


@pytest.mark.parametrize(("name", "named"), [
    ("vstack", {}), ("hstack", {}), ("concatenate", {"axis": 0}), ("append", {"axis": 0}),
])  # fmt: skip
def test_an_epoch_that_lengthens_an_array_is_followed_to_its_end(
    name: str, named: dict[str, int]
) -> None:
    watched = keeping()
    joined(watched, name, **named)
    assert watched.walks[1].lengthens == ROW.nbytes
    assert watched.goes_on(1, 32)


def test_what_is_joined_afresh_in_each_batch_keeps_nothing() -> None:
    watched = keeping()
    join = watched.lengthened.watched(numpy.concatenate)
    for _ in range(10):
        watched.asked(1)
        join([ROW, ROW])
    assert not watched.goes_on(1, 32)


def test_results_that_are_dropped_are_not_held() -> None:
    lengthened = Lengthened()
    lengthened.watched(numpy.vstack)((ROW, ROW))
    assert [ref() for ref in lengthened.recent] == [None]
