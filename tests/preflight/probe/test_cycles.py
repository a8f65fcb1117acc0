"""Cycles of scripts as they are written: peeking, evaluating, several loaders and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from gpuconsole.preflight.probe.training import cycles


class DoneError(Exception):
    """The run would end here."""


class Script:
    """A script's doings, as the probe tells them."""

    def __init__(self) -> None:
        self.cycles = cycles.Cycles(3)
        self.said: list[str] = []

    def _ended(self, ended: bool) -> None:
        if ended:
            self.said.append("cycle")
            if self.cycles.done:
                raise DoneError

    def loader(self, name: str, batches: int = 1000) -> Iterable[str]:
        try:
            for _ in range(batches):
                self._ended(self.cycles.fetched(name))
                if self.cycles.cut(name):
                    self.said.append(f"cut {name}")
                    return
                self.said.append(name)
                yield name
        finally:
            self.cycles.closed(name)

    def net(self, *, evaluating: bool = False) -> None:
        self._ended(self.cycles.called(evaluating))

    def backward(self) -> None:
        self.net()
        self.cycles.went_back()

    def step(self, optimizer: str = "adam") -> None:
        self._ended(self.cycles.steps_now(optimizer))
        self.cycles.stepped(optimizer)
        self.said.append(optimizer)

    def train(self) -> None:
        self.backward()
        self.step()


def run(write: Callable[[Script], None]) -> Script:
    script = Script()
    try:
        write(script)
    except DoneError:
        script.said.append("done")
    return script


def counted(script: Script, word: str) -> int:
    return script.said.count(word)


def test_three_steps_of_a_plain_loop() -> None:
    def plain(s: Script) -> None:
        s.cycles.made("adam")
        for _ in s.loader("train"):
            s.train()

    done = run(plain)
    assert counted(done, "adam") == 3
    assert done.said[-2:] == ["cycle", "done"]
    assert done.cycles.training == ["train"]


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_an_optimizer_that_steps_before_anything_went_back_has_not_trained(batches: int) -> None:
    def script(s: Script) -> None:
        s.cycles.made("adam")
        for _ in range(9):
            s.step()
            for _ in s.loader("train", batches):
                s.train()

    done = run(script)
    first = done.said.index("cycle")
    # Three batches were trained on, whatever stepped between.
    assert counted(done, "cycle") == 3
    assert counted(done, "train") >= 3
    assert "train" in done.said[:first]


def test_a_batch_that_is_only_looked_at_is_no_cycle() -> None:
    def peeking(s: Script) -> None:
        for at in range(5):
            next(iter(s.loader(f"peek {at}")))
        s.cycles.made("adam")
        next(iter(s.loader("once more")))
        for _ in s.loader("train"):
            s.train()

    done = run(peeking)
    assert counted(done, "adam") == 3
    assert counted(done, "cycle") == 3
    assert done.cycles.training == ["train"]


@pytest.mark.parametrize("before", ["model", "optimizer"])
def test_evaluation_before_training_is_cut_and_training_seen(before: str) -> None:
    def script(s: Script) -> None:
        if before == "optimizer":
            s.cycles.made("adam")
        for _ in s.loader("eval"):
            s.net(evaluating=True)
        s.cycles.made("adam")
        for _ in s.loader("train"):
            s.train()

    done = run(script)
    assert counted(done, "eval") == 3
    assert counted(done, "cut eval") == 1
    assert counted(done, "adam") == 3
    assert done.cycles.training == ["train"]


def test_data_that_are_walked_over_without_a_network_are_walked_over_whole() -> None:
    def script(s: Script) -> None:
        for _ in s.loader("statistics", 200):
            pass
        s.cycles.made("adam")
        for _ in s.loader("train"):
            s.train()

    done = run(script)
    assert counted(done, "statistics") == 200
    assert counted(done, "adam") == 3


def test_an_accumulation_is_one_cycle() -> None:
    def script(s: Script) -> None:
        s.cycles.made("adam")
        for at, _ in enumerate(s.loader("train")):
            s.backward()
            if at % 8 == 7:
                s.step()

    done = run(script)
    assert counted(done, "train") == 24
    assert counted(done, "adam") == 3


def test_the_rarer_optimizer_of_a_gan_is_waited_for() -> None:
    def script(s: Script) -> None:
        s.cycles.made("critic")
        s.cycles.made("generator")
        for at, _ in enumerate(s.loader("train")):
            s.backward()
            s.step("critic")
            if at % 5 == 4:
                s.backward()
                s.step("generator")

    done = run(script)
    assert counted(done, "generator") == 2
    assert done.said[-1] == "done"


def test_an_optimizer_that_never_steps_is_not_waited_for_for_ever() -> None:
    def script(s: Script) -> None:
        s.cycles.made("unused")
        s.cycles.made("adam")
        for _ in s.loader("train"):
            s.train()

    done = run(script)
    assert done.said[-1] == "done"
    assert counted(done, "adam") == 3 + cycles.MAX_WAIT


def test_an_optimizer_that_the_script_has_let_go_of_is_not_waited_for() -> None:
    def script(s: Script) -> None:
        s.cycles.made("made and dropped")
        s.cycles.released("made and dropped")
        s.cycles.made("warm-up")
        for _ in s.loader("few", 1):
            s.backward()
            s.step("warm-up")
        s.cycles.released("warm-up")
        for _ in s.loader("between", 9):
            s.net(evaluating=True)
        s.cycles.made("adam")
        for _ in s.loader("train"):
            s.train()

    done = run(script)
    assert counted(done, "warm-up") == 1
    assert counted(done, "adam") == 2
    # What is evaluated between is no cycle.
    assert counted(done, "cycle") == 3
    assert done.said[-1] == "done"


def test_an_optimizer_that_gets_the_number_of_a_former_counts_its_own_steps() -> None:
    def script(s: Script) -> None:
        for _ in s.loader("train"):
            s.cycles.made("number")
            s.backward()
            s.step("number")
            s.cycles.released("number")

    done = run(script)
    assert counted(done, "number") == counted(done, "cycle") == 3
    assert done.said[-1] == "done"


def test_a_network_is_only_run_where_its_optimizer_was_dropped_unused() -> None:
    def script(s: Script) -> None:
        s.cycles.made("adam")
        s.cycles.released("adam")
        for _ in s.loader("test"):
            s.net(evaluating=True)

    assert counted(run(script), "cycle") == 3


def test_one_batch_that_is_trained_on_again_and_again() -> None:
    def script(s: Script) -> None:
        s.cycles.made("adam")
        for _ in s.loader("train", 1):
            for _ in range(1000):
                s.train()

    done = run(script)
    assert counted(done, "adam") == 3
    assert done.said[-1] == "done"


def test_short_epochs_with_an_evaluation_after_each() -> None:
    def script(s: Script) -> None:
        s.cycles.made("adam")
        for epoch in range(10):
            for _ in s.loader(f"train {epoch}", 2):
                s.train()
            for _ in s.loader(f"eval {epoch}", 50):
                s.net(evaluating=True)

    done = run(script)
    assert counted(done, "adam") == 3
    assert counted(done, "cut eval 0") == 1
    assert done.cycles.training == ["train 1"]


def test_two_loaders_side_by_side() -> None:
    def script(s: Script) -> None:
        s.cycles.made("adam")
        for _ in zip(s.loader("labelled"), s.loader("plain"), strict=False):
            s.train()

    done = run(script)
    assert counted(done, "adam") == 3
    assert done.cycles.training == ["labelled", "plain"]


def test_a_network_that_is_only_run() -> None:
    def script(s: Script) -> None:
        for _ in s.loader("test"):
            s.net(evaluating=True)

    done = run(script)
    assert counted(done, "test") == 3
    assert done.cycles.enough
    assert done.said[-1] == "cut test"


def test_many_epochs_of_a_network_that_is_only_run_come_to_an_end() -> None:
    def script(s: Script) -> None:
        for at in range(10_000):
            for _ in s.loader(f"test {at}"):
                s.net(evaluating=True)

    assert run(script).said[-1] == "done"


def test_a_service_that_never_ends_is_left() -> None:
    def script(s: Script) -> None:
        while True:
            s.net(evaluating=True)

    done = run(script)
    assert counted(done, "cycle") == cycles.MAX_RUNS * cycles.CALLS


def test_two_cycles_of_each_optimizer_are_enough_where_a_script_breaks_off() -> None:
    def script(s: Script) -> None:
        for place, _ in enumerate(s.loader("train")):
            if place == 2:
                return
            s.train()

    done = run(script)
    assert (done.cycles.trained, done.cycles.enough, done.cycles.done) == (2, True, False)
    one = cycles.Cycles(3)
    one.trained, one.steps = 2, {"often": 2, "rare": 1}
    assert not one.enough, "the states of the other come with its first step"
