"""What the probe decides between its runs, without Paddle."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.probe.runs import forking as ahead
from gpuconsole.preflight.probe.runs import linearity as line
from gpuconsole.preflight.probe.runs import project_copy
from gpuconsole.preflight.probe.training import batch_size as batch
from tests.waiting import DEADLINE_S


def run(size: int, *blocks: int, **more: Any) -> dict[str, Any]:
    born = list(range(len(blocks)))
    return {"batch": size, "events": [*born, *(~one for one in born)], "sizes": list(blocks),
            "seconds": 2.0 + 0.5 * size, "readers": [], "own_batch": None, "names": ["matmul"],
            "flags": [], "notes": [], "loaders": True, **more}  # fmt: skip


def test_lines_and_pairs_of_samples_are_straight() -> None:
    runs = [run(b, 1000, 100 * b, 50 + 7 * b, 30 * b * b) for b in (2, 4, 8)]
    assert line.straight(runs)
    assert line.straight(runs[:2])


@pytest.mark.parametrize("power", [0.7, 1.4])
def test_what_bends_is_not_straight(power: float) -> None:
    assert not line.straight([run(b, 1000, int(1000 * b**power)) for b in (2, 4, 8)])


def test_what_is_next_to_nothing_may_bend() -> None:
    assert line.straight([run(b, 10_000_000, 1000 * b, int(100 * b**0.5)) for b in (2, 4, 8)])


def test_another_program_is_not_straight() -> None:
    assert not line.straight([run(2, 100, 20), run(4, 100, 40, 1), run(8, 100, 80)])


def test_the_time_at_a_larger_batch_goes_by_two_runs() -> None:
    runs = [run(b, 1) for b in (2, 4, 8)]
    assert line.seconds_at(50, runs) == pytest.approx(27.0)


def test_other_sizes_of_loaders_ask_for_another_first_run() -> None:
    readers = [{"own": 48}, {"own": 24}]
    found = run(2, 1, readers=readers, own_batch=24)
    assert line.other_sizes(found, {"how": "loader", "value": None})
    assert not line.other_sizes(found, {"how": "loader", "value": 24})
    assert not line.other_sizes(found, {"how": "argument", "value": None})
    assert not line.other_sizes(run(2, 1, readers=readers[1:], own_batch=24), {"how": "loader"})


def test_data_that_is_shorter_than_both_sizes_does_not_tell_where_a_size_was_put() -> None:
    short = [{"samples": 38, "batches": 1}, {"samples": None, "batches": 1}]
    same = [run(b, 1, trained_on=38, readers=short) for b in (384, 768)]
    assert line.in_one_batch(same[0]) == 38
    assert not line.misplaced(*same, {"how": "argument"})
    for readers in ([{"samples": 500, "batches": 2}], [{"samples": 500, "batches": 1}], []):
        long = [run(b, 1, trained_on=38, readers=readers) for b in (384, 768)]
        assert line.in_one_batch(long[0]) == 0
        assert line.misplaced(*long, {"how": "argument"})


def test_a_size_that_changes_nothing_leaves_the_scripts_own() -> None:
    assert line.unmoved(run(2, 5, 6), run(4, 5, 6))
    assert not line.unmoved(run(2, 5, 6), run(4, 5, 7))
    only = line.fixed(run(2, 5, own_batch=32))
    assert (only["batch"], only["fixed"]) == (32, True)


def test_a_number_that_does_not_reach_the_training_batches_is_the_wrong_one() -> None:
    same = [run(b, 10 * b, trained_on=24) for b in (2, 4)]
    assert line.misplaced(*same, {"how": "edit"})
    assert not line.misplaced(*same, {"how": "loader"})
    assert not line.misplaced(*(run(b, b, trained_on=3 * b) for b in (2, 4)), {"how": "edit"})
    assert not line.misplaced(run(2, 1), run(4, 1), {"how": "argument"})


def test_loaders_keep_their_proportion_to_the_one_that_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch, "_SIZES", {"value": 24, "size": 8})
    assert [batch.replaced(given) for given in (24, 48, 1, None)] == [8, 16, 1, None]
    monkeypatch.setattr(batch, "_SIZES", {"value": None, "size": 8})
    assert [batch.replaced(given) for given in (24, 48, None)] == [8, 8, None]


def test_a_batch_sampler_of_the_scripts_own_gives_batches_of_this_runs_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Buckets(list[list[int]]):
        pass

    monkeypatch.setattr(batch, "_SIZES", {"value": None, "size": 2})
    own = Buckets([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12]])
    assert list(batch.sized(own)) == [[0, 1], [6, 7], [12]]

    class Loader:
        batch_sampler = own

    assert batch.own_of(Loader()) == 6


def test_looking_at_the_arguments_is_asking_for_the_batch_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {
        "batch": {"how": "argument", "args": ["--batch", "{batch}"]}, "size": 4, "ahead": 8,
    }  # fmt: skip

    def reached() -> None:
        if asked.pop("ahead", None):
            asked["size"] = 8

    monkeypatch.setattr(ahead, "reached", reached)
    words = batch.Words("train.py", asked)
    assert words[0] == "train.py"
    assert "ahead" in asked, "its name tells no batch size"
    assert words[1:] == ["--batch", "8"]
    words.append("more")
    assert list(words) == ["train.py", "--batch", "8", "more"]


def test_what_a_run_adds_to_a_project_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    before = project_copy.below(tmp_path)
    (tmp_path / "output" / "log").mkdir(parents=True)
    (tmp_path / "output" / "log" / "1.txt").touch()
    (tmp_path / "link").symlink_to(tmp_path / "train.py")
    project_copy.without_new(tmp_path, before)
    assert [one.name for one in tmp_path.iterdir()] == ["train.py"]


@pytest.fixture
def probe(part: Any) -> Any:
    return part("measure")


def traced(
    probe: Any, monkeypatch: pytest.MonkeyPatch, answer: Callable[[int], dict[str, Any]]
) -> tuple[list[int], dict[str, Any]]:
    """Return at which sizes a script is run with its data, and what comes of it."""
    sizes: list[int] = []

    def ran(request: dict[str, Any], _: object) -> dict[str, Any]:
        sizes.append(request["size"])
        return answer(request["size"])

    monkeypatch.setattr(probe, "run", ran)
    asked = {"mode": "traced", "batch": {"how": "argument", "value": 64}, "batches": [2, 4, 8]}
    return sizes, probe.batches(asked, [2, 4, 8], io.StringIO())


@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        (lambda size: run(size, 1000, 100 * size), [2, 4]),
        # A block that is neither the same nor as many times larger.
        (lambda size: run(size, 1000, 100 * size + 50), [2, 4, 8]),
        # As many rows as there are different words.
        (lambda size: run(size, 1000, 100 * size, names=["embedding_sparse_grad"]), [2, 4, 8]),
        (lambda size: run(size, *[100 * size] * size), [2, 4, 8]),
    ],
    ids=["lines", "not in proportion", "rows by data", "other operators"],
)
def test_a_third_run_is_made_where_two_do_not_tell_a_line(
    probe: Any, monkeypatch: pytest.MonkeyPatch, answer: Any, ran: list[int]
) -> None:
    sizes, found = traced(probe, monkeypatch, lambda size: {"run": answer(size)})
    assert sizes == ran
    assert [one["batch"] for one in found["runs"]] == ran
    assert not found["runs"][-1]["flags"]


@pytest.mark.parametrize(("left", "ran"), [(7.0, [2, 4, 8]), (5.9, [1, 2]), (6.5, [2, 4])], ids=str)
def test_runs_are_planned_for_the_time_that_is_left(
    probe: Any, monkeypatch: pytest.MonkeyPatch, left: float, ran: list[int]
) -> None:
    """The first run took 3 s: that of twice as many may take 6, so that one of fewer is made."""
    monkeypatch.setattr(probe.budget, "left_s", lambda: left)
    bent = {2: 3.0, 1: 2.0, 4: 3.4, 8: 3.5}
    _, found = traced(
        probe, monkeypatch,
        lambda size: {"run": run(size, 1000, 100 * size + 50, seconds=bent[size])},
    )  # fmt: skip
    assert [one["batch"] for one in found["runs"]] == ran
    told = found["runs"][-1]["flags"], [one for one in found["runs"][0]["notes"] if "Two" in one]
    assert (told == ([], [])) is (len(ran) == 3)


@pytest.mark.parametrize(("most", "ran"), [(2, [1, 2]), (4, [2, 4])])
def test_fewer_samples_are_run_where_the_memory_is_not_enough(
    probe: Any, monkeypatch: pytest.MonkeyPatch, most: int, ran: list[int]
) -> None:
    def answer(size: int) -> dict[str, Any]:
        if size > most:
            return {"error": {"kind": "memory", "message": "not enough"}}
        return {"run": run(size, 1000, 100 * size + 50)}

    _, found = traced(probe, monkeypatch, answer)
    assert [one["batch"] for one in found["runs"]] == ran
    assert found["runs"][-1]["flags"] == ["bound"]


def test_a_run_is_not_begun_that_this_place_has_no_memory_for(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = probe.budget
    few = run(2, 1000, 100)
    assert budget.refusal(4, [few]) == ""
    monkeypatch.setattr(budget, "room_bytes", lambda: 2000)
    assert "memory" in budget.refusal(4, [few])
    assert budget.refusal(2, [few]) == ""
    monkeypatch.setattr(budget, "_available", lambda: 2.0 * 2**30)
    assert budget.room_bytes() > 0


def answered(
    probe: Any, monkeypatch: pytest.MonkeyPatch, answer: Callable[[int | None], dict[str, Any]]
) -> tuple[list[int | None], dict[str, Any]]:
    """Return at which sizes a script is run in the meta tier, and what comes of it."""
    sizes: list[int | None] = []

    def ran(request: dict[str, Any], _: object) -> dict[str, Any]:
        sizes.append(request["size"])
        return answer(request["size"])

    monkeypatch.setattr(probe, "run", ran)
    asked = {"mode": "meta", "batch": {"how": "loader", "value": None}, "batches": [2, 4]}
    return sizes, probe.at_its_own(asked, io.StringIO())


def test_without_data_two_runs_do_where_the_size_is_not_known(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(size: int | None) -> dict[str, Any]:
        return {"run": run(size or 64, 10 * (size or 64), own_batch=64)}

    sizes, found = answered(probe, monkeypatch, answer)
    assert sizes == [None, 128]
    assert [one["batch"] for one in found["runs"]] == [64, 128]


def test_a_size_that_changes_nothing_leaves_one_run(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = answered(probe, monkeypatch, lambda size: {"run": run(size or 64, 10, own_batch=64)})
    assert [(one["batch"], one["fixed"]) for one in found["runs"]] == [(64, True)]


def test_what_no_size_avoids_is_not_tried_at_others(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"error": {"kind": "library", "message": "The script needs a module."}}
    assert answered(probe, monkeypatch, lambda _: error) == ([None], error)


@pytest.mark.parametrize(("how", "sizes"), [("edit", [2, None, 128]), ("argument", [2])])
def test_a_script_that_an_edit_breaks_is_run_as_it_is_written(
    probe: Any, monkeypatch: pytest.MonkeyPatch, how: str, sizes: list[int | None]
) -> None:
    """The number may be written in two places of a line, of which one was edited."""
    error = {"error": {"kind": "unsupported", "message": "The shapes that it makes."}}
    asked: list[int | None] = []

    def ran(request: dict[str, Any], _: object) -> dict[str, Any]:
        asked.append(request["size"])
        size = request["size"]
        return error if size else {"run": run(64, 640, own_batch=64, seconds=1.0, options=[])}

    monkeypatch.setattr(probe, "run", ran)
    request = {"mode": "meta", "batch": {"how": how, "value": 64}, "batches": [2, 4]}
    answer = probe.at_its_own(request, io.StringIO())
    assert asked == sizes
    assert ("runs" in answer) == (how == "edit")


def test_smaller_batches_are_tried_where_memory_is_short(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(size: int | None) -> dict[str, Any]:
        if size is None:
            return {"error": {"kind": "memory", "message": "The memory was not enough."}}
        return {"run": run(size, 10 * size, own_batch=64)}

    sizes, found = answered(probe, monkeypatch, answer)
    assert sizes == [None, 2, 4]
    assert [one["batch"] for one in found["runs"]] == [2, 4]


def test_the_size_asked_about_is_run_where_others_are_of_another_program(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def ran(request: dict[str, Any], _: object) -> dict[str, Any]:
        sizes.append(request["size"])
        return {"run": dict(run(request["size"], 1), request=request)}

    monkeypatch.setattr(probe, "run", ran)
    alike = [dict(run(size, size), request={"size": size, "until": 5}) for size in (4, 8)]
    other = [alike[0], dict(alike[1], events=[*alike[1]["events"], 0, ~0])]
    for asked, runs, expected in ((2, alike, []), (None, other, []), (8, other, []),
                                  (2, other, [2])):  # fmt: skip
        sizes.clear()
        found = probe.as_asked({"own": asked}, {"runs": runs}, io.StringIO())
        assert sizes == expected
        assert [one["batch"] for one in found["runs"]] == [4, 8, *expected]
    # An epoch is another number of its batches.
    assert found["runs"][2]["request"]["until"] is None


def test_a_script_whose_double_fails_is_run_at_the_size_asked_about(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def ran(request: dict[str, Any], _: object) -> dict[str, Any]:
        sizes.append((request["size"], request["batch"], request["until"]))
        more = {"until": request["until"], "request": request}
        return {"run": run(request["size"], request["size"], **more)}

    monkeypatch.setattr(probe, "run", ran)
    first = line.fixed(run(64, 64, own_batch=64, until=5))
    asked = {"own": 8, "batch": {"how": "loader"}}
    found = probe.as_asked(asked, {"runs": [first]}, io.StringIO())["runs"]
    assert sizes == [(8, {"how": "loader", "value": 64}, 5)]
    assert [(one["batch"], one.get("fixed")) for one in found] == [(8, None), (64, None)]
    # Of its own size all is known, and nothing else can be put into a script without a loader.
    bare = line.fixed(run(64, 64, own_batch=64, loaders=False))
    for wanted, alone in ((64, first), (8, bare)):
        answer = {"runs": [alone]}
        assert probe.as_asked(dict(asked, own=wanted), answer, io.StringIO()) == answer
    assert len(sizes) == 1


def steps(count: int, block: int, tail: int = 0, **more: Any) -> dict[str, Any]:
    """Return a run of some cycles, each with a block of its own, and a block after the last."""
    sizes = [block] * count + [tail] * bool(tail)
    events = [event for one in range(len(sizes)) for event in (one, ~one)]
    return {"batch": 64, "own_batch": 64, "events": events, "sizes": sizes, "notes": [],
            "numbers_at": ["a.py:1"], "request": {}, "name": [0] * len(sizes),
            "cycles": [2 * one + 2 for one in range(count)], "kind": [0] * len(sizes),
            "inside": [0, len(sizes) - 1], "cycles_seen": count, **more}  # fmt: skip


def test_runs_are_held_against_each_other_as_far_as_both_went() -> None:
    far, near = steps(5, 10, 70, until=6), steps(3, 10)
    assert not line.unmoved(far, near)
    assert line.unmoved(*line.level(far, near))
    assert not line.unmoved(*line.level(far, steps(3, 11)))
    both = line.level(far, steps(5, 10, 80, until=6))
    assert not line.unmoved(*both), "neither was cut"
    cut = line.upto(far, 2)
    assert (cut["sizes"], cut["inside"], cut["cycles"]) == ([10, 10], [0], [2, 4])
    assert line.upto(far, 0)["events"] == []


def test_runs_that_were_followed_until_the_script_ended_went_as_far() -> None:
    """With more samples in a batch a short epoch has fewer of them, and the run fewer cycles."""
    ended = {"by_itself": True}
    many, few = steps(5, 10, 70, until=6, **ended), steps(3, 10, 70, until=4, **ended)
    assert line.level(many, few) == (many, few)
    cut = steps(3, 10, 70, until=4, by_itself=False)
    assert line.level(many, cut) != (many, cut)
    first = steps(3, 10, 70, by_itself=False)
    assert line.level(many, first) != (many, first)


def test_a_run_with_other_numbers_that_the_clock_cut_is_no_change_of_memory(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = steps(5, 10, 70, until=6, early=3)
    monkeypatch.setattr(probe, "run", lambda *_: {"run": steps(3, 10)})
    answer = {"runs": [first]}
    assert probe.with_other_numbers(answer, io.StringIO()) is answer


def test_numbers_that_change_what_follows_training_leave_the_answer_for_training(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows needs less, with any of the numbers."""
    runs = [steps(5, 100, 70, until=6, early=3), steps(5, 200, 70, until=6, early=3)]
    monkeypatch.setattr(probe, "run", lambda *_: {"run": steps(5, 100, 90, until=6)})
    found = probe.with_other_numbers({"runs": runs}, io.StringIO())["runs"]
    assert [one["sizes"] for one in found] == [[100] * 3, [200] * 3]
    (note,) = found[0]["notes"]
    assert note.startswith("The peak of the first 3 steps: ")
    assert "a.py:1" in note


def test_what_follows_training_and_needs_more_with_some_numbers_leaves_no_answer(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [steps(5, 10, 70, until=6, early=3), steps(5, 20, 70, until=6, early=3)]
    monkeypatch.setattr(probe, "run", lambda *_: {"run": steps(5, 10, 90, until=6)})
    error = probe.with_other_numbers({"runs": runs}, io.StringIO())["error"]
    assert "after the first steps the memory changes with a number" in error["message"]


def test_what_follows_training_counts_where_other_numbers_hardly_move_it(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its range is open upwards: a third number may move it more."""
    runs = [steps(5, 10, 1000, until=6, early=3), steps(5, 20, 1000, until=6, early=3)]
    monkeypatch.setattr(probe, "run", lambda *_: {"run": steps(5, 10, 1001, until=6)})
    found = probe.with_other_numbers({"runs": runs}, io.StringIO())["runs"]
    assert [1000 in one["sizes"] for one in found] == [True, True]
    assert {one["reached"] for one in found} == {"steps"}


def test_numbers_that_change_training_leave_no_answer(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = steps(5, 10, 70, until=6, early=3)
    monkeypatch.setattr(probe, "run", lambda *_: {"run": steps(5, 12, 70, until=6)})
    error = probe.with_other_numbers({"runs": [first]}, io.StringIO())["error"]
    assert "the memory changes with a number" in error["message"]


@pytest.mark.parametrize(
    ("extra", "known"),
    [(lambda number: 4 * number, True), (lambda number: 4 * number**2, False),
     (lambda number: 400 * number, False), (lambda number: 8 if number == 16 else 4, False)],
)  # fmt: skip
def test_a_few_bytes_for_a_number_that_only_data_gives_take_no_answer_back(
    probe: Any, monkeypatch: pytest.MonkeyPatch, extra: Callable[[int], int], known: bool
) -> None:
    """A million of them is next to nothing beside the peak, and they grow as the number does."""
    whole = 2**31

    def other(asked: Any, _: Any) -> Any:
        return {"run": steps(3, whole, extra(asked["number"]))}

    monkeypatch.setattr(probe, "run", other)
    first = steps(3, whole, extra(1))
    found = probe.with_other_numbers({"runs": [first]}, io.StringIO())
    assert ("runs" in found) is known
    if known:
        (note,) = first["notes"]
        assert "a.py:1" in note
        assert "4.00 MiB" in note


def test_a_second_size_that_was_cut_leaves_the_scripts_own(probe: Any) -> None:
    first = steps(5, 10, 70, until=6)
    (only,) = probe.pair(first, steps(3, 20, batch=128))
    assert (only["batch"], only["fixed"], only["sizes"]) == (64, True, first["sizes"])
    assert only["notes"] == [probe.SHORTER]
    other = dict(first, batch=2)
    assert [len(one["sizes"]) for one in probe.pair(other, steps(3, 20, batch=4))] == [3, 3]


class Ended:
    """A process that runs the script and has ended."""

    is_waiting = False

    def __init__(self, *_: Any) -> None: ...

    def end(self) -> None: ...


def test_an_error_before_other_answers_is_the_answer_of_a_run(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the process may go on after the first came to an error."""
    error = {"error": {"kind": "library", "message": "It lacks a module."}}
    monkeypatch.setattr(probe, "said", lambda *_: [error, {"run": run(128, 10, own_batch=64)}])
    monkeypatch.setattr(probe.starts, "Start", Ended)
    request = {"size": None, "ahead": {"size": "double"}, "mode": "meta", "root": ""}
    assert probe.run(request, lambda *_: None) == error


def test_a_file_with_another_batch_size_is_a_file_like_any_other(tmp_path: Path) -> None:
    """Readers of settings ask a file for its name, and some for its descriptor."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("epochs: 3\nbatch: 64\nname: größer\n", encoding="utf-8")
    script = (
        "import io, os, sys\nfrom gpuconsole.preflight.probe.training import batch_size\n"
        "path = os.path.realpath(sys.argv[1])\n"
        "batch_size._EDITED[path] = None\n"
        "batch_size._text = lambda path: 'epochs: 3\\nbatch: 8\\nname: größer\\n'\n"
        "batch_size._serve_edits()\n"
        "with open(path, encoding='utf-8') as file:\n"
        "    print(file.name == path, os.fstat(file.fileno()).st_size, file.read().split()[3:])\n"
        "with io.open(path, 'rb') as file:\n    print(file.name == path, file.readline())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(settings)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "True 34 ['8', 'name:', 'größer']", "True b'epochs: 3\\n'",
    ], done.stderr  # fmt: skip
