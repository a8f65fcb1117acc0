"""How `check` says that containers get the devices of other makers."""

from __future__ import annotations

from gpuconsole.core.vendors import VENDORS
from gpuconsole.remote.check import handed_over


def test_nodes_a_runtime_and_privileges_are_told_apart() -> None:
    result, words, remedy = handed_over([VENDORS["ascend"]], ["runc"])
    assert (result, remedy) == ("ok", "")
    assert words == "Huawei Ascend's devices are given as nodes (unproven)"
    assert "by the runtime ascend" in handed_over([VENDORS["ascend"]], ["ascend", "runc"])[1]
    result, words, remedy = handed_over([VENDORS["hygon"], VENDORS["enflame"]], [])
    assert result == "warn"
    assert "privileged containers alone" in words
    assert "Hygon" in words
    assert "allow_privileged" in remedy
