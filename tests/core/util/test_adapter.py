"""Documents are checked and written as pydantic does it, and nothing is prepared before."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from gpuconsole.core.util.adapter import Adapter

UNUSED = """
import gpuconsole.session.lab_service.protocol as protocol
import pydantic
adapters = {name for name, value in vars(protocol).items() if type(value).__name__ == "Adapter"}
assert len(adapters) > 10
print(sorted(name for name in adapters if "_adapter" in vars(getattr(protocol, name))))
protocol.DIGEST.dump_json("sha256:1")
print(sorted(name for name in adapters if "_adapter" in vars(getattr(protocol, name))))
"""


def test_a_document_goes_both_ways_and_a_wrong_one_is_refused() -> None:
    numbers = Adapter(tuple[int, ...])
    assert numbers.validate_json(b"[1, 2]") == (1, 2)
    assert numbers.validate_python([1, 2]) == (1, 2)
    assert numbers.dump_json((1, 2)) == b"[1,2]"
    for wrong in (b"[1, null]", b"{}", b"["):
        with pytest.raises(ValidationError):
            numbers.validate_json(wrong)


def test_a_protocol_prepares_the_documents_that_are_used_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNUSED], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["[]", "['DIGEST']"], done.stderr
