"""What a function that reading does not know may do to the containers that it is handed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis
from tests.preflight.forms import WHOLE, key

Scan = Callable[..., Analysis]
TRAIN = "net = Net()\nfit(net, 32, paddle.optimizer.Adam(parameters={}))\n"
PLAIN = TRAIN.format("net.parameters()")


@pytest.mark.parametrize(
    ("before", "parameters"),
    [
        ("more = []\nspam.fill(more)\n", "[*net.parameters(), *more]"),
        ("more = []\nspam.fill(1, into=more)\n", "net.parameters() + more"),
        ("more = {}\nspam.fill(more)\n", "[*net.parameters(), *more.values()]"),
        ("more = [paddle.zeros([4])]\nspam.fill(more)\n", "[*net.parameters(), *more]"),
        ("more = []\nspam.Keeper().fill(more)\n", "[*net.parameters(), *more]"),
        ("more = []\nadd = spam.maker()\nadd(more)\n", "[*net.parameters(), *more]"),
    ],
)
def test_a_container_that_something_unknown_may_have_filled_is_unknown(
    scan: Scan, before: str, parameters: str
) -> None:
    found = scan(f"{WHOLE}import spam\n{before}{TRAIN.format(parameters)}").estimate()
    assert found.errors == ()
    assert found.memory is None
    assert "spam" in found.unknowns[0].reason
    assert not any("spam" in asked.name for asked in found.asks), "no answer tells that"


@pytest.mark.parametrize(
    "before",
    [
        # It is used for nothing that takes memory.
        "seen = []\nspam.fill(seen)\nprint(len(seen))\n",
        # Settings are read.
        "sizes = [48, 10]\nspam.log(sizes)\nassert sizes[0] == 48\n",
        "sizes = {'width': 48}\nspam.log(sizes)\nassert sizes['width'] == 48\n",
        # What is known does what it is known to do.
        "more = []\nprint(more)\nsorted(more)\nnp.array(more)\n",
    ],
)
def test_other_calls_change_no_answer(scan: Scan, before: str) -> None:
    plain = scan(WHOLE + PLAIN).estimate()
    assert key(scan(f"{WHOLE}import spam\n{before}{PLAIN}").estimate()) == key(plain)
