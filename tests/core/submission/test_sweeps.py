"""Sweeps: values, their product, names and arguments."""

from __future__ import annotations

import pytest

from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.sweeps import (
    Axis,
    combinations,
    parameters,
    read_axes,
    task_of,
    with_option,
)
from gpuconsole.errors import UsageError


def test_values_and_ranges() -> None:
    axes = read_axes(["lr=1e-3,1e-4", "seed=0..3 width=64..256..64,512", "--drop-out=0.1"])
    assert axes == (
        Axis("lr", ("1e-3", "1e-4")),
        Axis("seed", ("0", "1", "2", "3")),
        Axis("width", ("64", "128", "192", "256", "512")),
        Axis("drop-out", ("0.1",)),
    )
    assert axes[0].numeric
    assert not Axis("net", ("small", "large")).numeric


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "names no argument"),
        (["lr"], "not NAME=VALUES"),
        (["=1"], "not NAME=VALUES"),
        (["lr="], "empty value"),
        (["lr=1,,2"], "empty value"),
        (["lr=1,1"], "a value twice"),
        (["lr=1", "lr=2"], "comes twice"),
        (["seed=5..2"], "no number in it"),
        (["seed=0..1000000"], "more than 1000 numbers"),
        (["a=0..99", "b=0..10"], "100 × 11 are 1100 jobs"),
        (["lr=\x1b[31m"], "empty value"),
    ],
)
def test_what_is_no_sweep_is_said(texts: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_axes(texts)


def test_the_product_with_the_last_axis_fastest() -> None:
    found = combinations(read_axes(["lr=1,2", "seed=0..1"]))
    assert found == (
        (("lr", "1"), ("seed", "0")),
        (("lr", "1"), ("seed", "1")),
        (("lr", "2"), ("seed", "0")),
        (("lr", "2"), ("seed", "1")),
    )


def test_a_job_of_a_sweep_has_name_and_arguments_of_its_own() -> None:
    task = Task("train", "/p/train.py", args=("--epochs", "3", "--lr=0.1"))
    own = {"learning-rate": ("-l", "--lr")}
    made = task_of(
        task, (("learning-rate", "1e-3"), ("seed", "0")), "s", lambda name: own.get(name, ())
    )
    assert made.name == "train[learning-rate=1e-3,seed=0]"
    assert made.args == ("--epochs", "3", "--lr=1e-3", "--seed", "0")
    assert made.sweep == "s"


def test_options_are_set_where_they_stand() -> None:
    assert with_option(("--lr", "1", "x"), ("--lr",), "2") == ("--lr", "2", "x")
    assert with_option(("-l", "1"), ("-l", "--lr"), "2") == ("-l", "2")
    assert with_option(("--lr",), ("--lr",), "2") == ("--lr", "2")
    assert with_option((), ("-l", "--lr"), "2") == ("--lr", "2")
    assert with_option((), ("--shift",), "-2") == ("--shift=-2",)


def test_long_names_are_cut_before_their_values() -> None:
    made = task_of(Task("n" * 128), (("seed", "17"),), "s", lambda name: ())
    assert len(made.name) == 128
    assert made.name.endswith("n[seed=17]")
    longer = task_of(Task("n" * 128), (("path", "x" * 300),), "s", lambda name: ())
    assert len(longer.name) <= 128


def test_the_options_in_which_commands_differ() -> None:
    names, values = parameters(
        [
            ("data", "--epochs", "3", "--lr=0.1", "--amp", "-b", "8"),
            ("data", "--epochs", "3", "--lr", "0.01", "-b", "16"),
            ("data", "--epochs", "3", "--lr", "-1"),
        ]
    )
    assert names == ("lr", "amp", "b")
    assert values == [
        {"lr": "0.1", "amp": "yes", "b": "8"},
        {"lr": "0.01", "amp": "", "b": "16"},
        {"lr": "-1", "amp": "", "b": ""},
    ]
