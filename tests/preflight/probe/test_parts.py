"""Parts of the probe that need no Paddle: samples of a batch, made-up files, what code requires."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import tarfile
import types
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.waiting import DEADLINE_S


def test_the_last_batch_of_an_epoch_is_as_large_as_the_others(part: Any) -> None:
    """Else runs with several batch sizes would meet a short batch at different steps."""
    filled = part("training.loaders").filled
    assert list(filled([[0, 1, 2], [3, 4, 5], [6]], bool)) == [[0, 1, 2], [3, 4, 5], [6, 6, 6]]
    assert list(filled([[0, 1], [2, 3]], bool)) == [[0, 1], [2, 3]]
    by_length = [[0, 1, 2], [3, 4], [5]]
    assert list(filled(by_length, bool)) == by_length
    assert list(filled([[0]], bool)) == [[0]]
    assert list(filled([], bool)) == []


def test_a_short_batch_after_one_alone_stays_short(part: Any) -> None:
    """A step that holds what it made of the one before has never two full ones."""
    filled = part("training.loaders").filled
    assert list(filled([[0, 1, 2], [3]], bool)) == [[0, 1, 2], [3]]


def test_a_short_batch_stays_short_where_something_is_kept_of_each(part: Any) -> None:
    """It adds to what is held, and as much as it has."""
    filled = part("training.loaders").filled
    ends = iter([[0, 1, 2], [3, 4, 5], [6]])
    assert list(filled(ends, lambda: True)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_batches_of_another_sampler_are_filled_within(part: Any) -> None:
    filled = part("training.loaders").filled
    within = [[[0, 1, 2]], [[3, 4, 5]], [[6]]]
    assert list(filled(within, bool)) == [[[0, 1, 2]], [[3, 4, 5]], [[6, 6, 6]]]
    assert list(filled(within[:1] + within[2:], bool)) == [[[0, 1, 2]], [[6]]]


def test_a_sampler_of_batches_has_their_size(part: Any) -> None:
    own_of = part("training.batch_size").own_of
    inner = types.SimpleNamespace(batch_size=40, sampler=object())
    outer = types.SimpleNamespace(batch_size=1, sampler=inner)
    assert own_of(types.SimpleNamespace(batch_sampler=outer)) == 40
    assert own_of(types.SimpleNamespace(batch_sampler=inner)) == 40
    assert own_of(types.SimpleNamespace(batch_sampler=None, batch_size=None)) is None


class Counted:
    """Samples with the lengths that are given; counts what is fetched."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths
        self.fetched = 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        self.fetched += 1
        return np.zeros(self.lengths[index]), index


def test_a_batch_of_one_form_is_filled_with_its_first_samples(part: Any) -> None:
    loader = part("training.loaders")
    data, take = Counted([5] * 200), loader.Sparing(loader.Fetching(False, set()))
    assert len(take(loader.Lazy(list(range(100)), data))) == 100
    assert data.fetched == loader.FIRST
    assert take.filled
    assert len(take(loader.Lazy(list(range(100, 200)), data))) == 100
    assert data.fetched == loader.FIRST + loader.LATER
    assert len(take(loader.Lazy([1], data))) == 1
    assert not take.filled


class Worked(Counted):
    """Samples for each of which so many calls are made."""

    def __init__(self, calls: int, count: int) -> None:
        super().__init__([5] * count)
        self.calls = calls

    def __getitem__(self, index: int) -> tuple[Any, int]:
        for _ in range(self.calls):
            len(())
        return super().__getitem__(index)


def test_a_batch_that_takes_little_work_is_fetched_whole(part: Any) -> None:
    loader = part("training.loaders")
    fetching = loader.Fetching(None, set())
    data, take = Counted([5] * 100), loader.Sparing(fetching)
    assert [row[1] for row in take(loader.Lazy(list(range(100)), data))] == list(range(100))
    assert not take.filled
    assert fetching.reported == {True}
    assert 0 < fetching.work < 100


def test_batches_that_take_much_work_are_filled_and_all_later_ones_too(part: Any) -> None:
    """A step that knows the labels would go another way than one that does not. How much work it is
    hangs on no processor."""
    loader = part("training.loaders")
    told: set[bool] = set()
    large = loader.Fetching(None, told)
    data = Worked(loader.SOON // 199, 400)
    assert len(loader.Sparing(large)(loader.Lazy(list(range(200)), data))) == 200
    assert data.fetched == loader.FIRST
    # The next epoch begins where the first has ended: with what is known of this loader.
    loader.Sparing(large)(loader.Lazy(list(range(200, 400)), data))
    assert data.fetched == 2 * loader.FIRST
    assert told == {False}
    assert large.tally == [data.fetched * large.work]
    # A smaller one is fetched whole, and another run does as this one did.
    small = loader.Sparing(loader.Fetching(None, told))
    small(loader.Lazy(list(range(20)), data))
    assert data.fetched == 2 * loader.FIRST + 20
    loader.Sparing(loader.Fetching(True, told))(loader.Lazy(list(range(200)), data))
    assert data.fetched == 2 * loader.FIRST + 220


def test_numbers_of_a_sample_are_work_too(part: Any) -> None:
    """Pictures are read by few calls."""
    loader = part("training.loaders")
    _, work = loader.counted(lambda: np.zeros(loader.NUMBERS * 50))
    assert 50 <= work < 60


class Pictures(Counted):
    """Samples of nothing but large arrays and their names, with a number where it is asked for."""

    def __init__(self, count: int, numbered: bool = False) -> None:
        super().__init__([0] * count)
        self.numbered = numbered

    def __getitem__(self, index: int) -> Any:
        self.fetched += 1
        row = {"picture": np.zeros((3, 100, 100)), "mask": np.zeros((100, 100)), "name": "a"}
        return {**row, "number": index} if self.numbered else row


def test_of_small_batches_without_values_the_first_samples_are_enough(part: Any) -> None:
    """Nothing tells one picture from another where no tensor carries its data."""
    loader = part("training.loaders")
    fetching = loader.Fetching(None, set())
    data, take = Pictures(100), loader.Sparing(fetching)
    assert len(take(loader.Lazy(list(range(8)), data))) == 8
    assert data.fetched == 8
    assert len(take(loader.Lazy(list(range(8)), data))) == 8
    assert take.filled
    # The next epoch knows them, too.
    assert len(loader.Sparing(fetching)(loader.Lazy(list(range(8)), data))) == 8
    assert data.fetched == 8 + 2 * loader.LATER
    numbered = Pictures(100, numbered=True)
    take = loader.Sparing(loader.Fetching(None, set()))
    for _ in range(2):
        take(loader.Lazy(list(range(8)), numbered))
    assert numbered.fetched == 16
    assert not take.filled
    few = Pictures(100)
    take = loader.Sparing(loader.Fetching(None, set()))
    for _ in range(2):
        # Six masks of 10,000 points are a tensor with values that are known.
        take(loader.Lazy(list(range(6)), few))
    assert few.fetched == 12


def test_batches_of_copies_are_made_in_the_form_of_those_before(part: Any) -> None:
    """Two alike are enough, and now and then one is made to see whether they still are."""
    loader, collation = part("training.loaders"), part("training.collation")
    templates = collation.Templates()
    batch = {"x": [np.ones((4, 3), "float32"), np.int64(3)], "names": ("a", "b")}
    for _ in range(collation.SETTLED):
        assert not templates.reuses("key")
        templates.made("key", batch)
    for _ in range(collation.CHECKED):
        assert templates.reuses("key")
        again = templates.batch("key")
    assert loader.form(again) == loader.form({**batch, "x": [batch["x"][0], np.zeros((), "int64")]})
    assert again["names"] == ("a", "b")
    assert not templates.reuses("key")
    assert not templates.reuses("other")
    templates.made("key", {**batch, "x": [np.ones((5, 3), "float32"), np.int64(3)]})
    assert not templates.reuses("key")


@pytest.mark.parametrize("part_of_batch", [object(), np.array(["a"]), np.array([None])])
def test_a_batch_of_other_things_is_made_each_time(part: Any, part_of_batch: Any) -> None:
    collation = part("training.collation")
    templates = collation.Templates()
    for _ in range(3 * collation.SETTLED):
        templates.made("key", [np.ones(3), part_of_batch])
    assert not templates.reuses("key")


def test_what_is_not_made_of_a_batch_is_not_copied(part: Any) -> None:
    loader, collation = part("training.loaders"), part("training.collation")
    fetching = loader.Fetching(False, set(), templates=collation.Templates())
    take = loader.Sparing(fetching)
    for _ in range(collation.SETTLED):
        rows = take(loader.Lazy(list(range(100)), Counted([5] * 200)))
        assert not take.reuses
        assert len({id(row[0]) for row in rows}) == 100
        fetching.templates.made(loader._key(rows[0], 100), [np.ones((100, 5))])
    rows = take(loader.Lazy(list(range(100)), Counted([5] * 200)))
    assert take.reuses
    assert len({id(row[0]) for row in rows}) == 1


def test_where_memory_is_measured_each_batch_of_copies_is_made(part: Any) -> None:
    loader, collation = part("training.loaders"), part("training.collation")
    take = loader.Sparing(loader.Fetching(False, set()))
    for _ in range(2 * collation.SETTLED):
        rows = take(loader.Lazy(list(range(100)), Counted([5] * 200)))
        assert not take.reuses
        assert len({id(row[0]) for row in rows}) == 100


class Held:
    """Stands for a tensor without data."""

    def __init__(self) -> None:
        self.m_known: list[int] | None = [1]


class Batches:
    """Stands for a loader of ready tensors in batches of four."""

    def __init__(self) -> None:
        self.dataset = Counted([5] * 100)
        self.batch_sampler: list[list[int]] = [[0, 1, 2, 3] * 5]
        self.batch_size = 20

    def collate_fn(self, rows: list[Any]) -> list[Any]:
        return [Held(), {"length": Held()}, len(rows)]


@pytest.mark.parametrize("whole", [False, True])
def test_what_copies_hold_is_not_known(
    part: Any, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    loader = part("training.loaders")
    collate = types.ModuleType("paddle.io.dataloader.collate")
    collate.__dict__.update(default_collate_fn=None, default_convert_fn=None)
    for name in ("paddle", "paddle.io", "paddle.io.dataloader"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, collate.__name__, collate)
    paddle = types.SimpleNamespace(io=types.SimpleNamespace(IterableDataset=Held))
    (batch,) = loader.batches(paddle, Batches(), loader.Sparing(loader.Fetching(whole, set())))
    assert batch[2] == 20
    known = [1] if whole else None
    assert (batch[0].m_known, batch[1]["length"].m_known) == (known, known)


def test_samples_of_several_forms_are_all_fetched(part: Any) -> None:
    loader = part("training.loaders")
    data, take = Counted([5] * 100 + [7, 8] * 50), loader.Sparing(loader.Fetching(False, set()))
    assert len(take(loader.Lazy(list(range(100)), data))) == 100
    rows = take(loader.Lazy(list(range(100, 200)), data))
    assert [len(row[0]) for row in rows] == [7, 8] * 50
    assert [row[1] for row in take(loader.Lazy([1, 2, 3], data))] == [1, 2, 3]


SCALES = tuple(range(32, 80, 4))


def _at_a_scale(samples: list[Any]) -> tuple[Any, list[Any]]:
    """Make a batch at a scale that is drawn, and change the samples themselves."""
    side = int(np.random.choice(SCALES))
    shapes = [one.pop() for one in samples]
    return np.zeros((len(samples), side, side)), shapes


def _mixed(samples: list[Any]) -> list[Any]:
    """Make a batch whose labels are mixed now and then."""
    labels = np.zeros((len(samples), 10) if random.random() < 0.4 else len(samples))
    return [np.zeros((len(samples), 64)), labels]


def _alone(samples: list[Any]) -> Any:
    raise ValueError("more samples are needed")


def test_a_batch_drawn_at_several_scales_is_made_at_the_largest(part: Any) -> None:
    collate, loader, flags = part("training.collation"), part("training.loaders"), set[str]()
    make = collate.Collate(_at_a_scale, flags, loader.extent)
    for _ in range(5):
        batch, _ = make([[1] for _ in range(6)])
        assert batch.shape == (6, SCALES[-1], SCALES[-1])
    assert flags == {"variable-shape"}
    assert any("Batches differ in size" in one for one in part("notes").notes())
    mix = collate.Collate(_mixed, flags, loader.extent)
    assert {mix([0] * 6)[1].shape for _ in range(20)} == {(6, 10)}


def test_the_largest_batch_is_looked_for_once_for_all_runs_of_a_script(part: Any) -> None:
    collate, loader, flags = part("training.collation"), part("training.loaders"), set[str]()
    tried: list[int] = []

    def counted(samples: list[Any]) -> Any:
        tried.append(len(samples))
        return _at_a_scale(samples)

    drawn = collate.Drawn()
    first = collate.Collate(counted, flags, loader.extent, drawn)([[1] for _ in range(6)])[0]
    assert len(tried) == collate.TRIALS + 1
    flags.clear()
    again = collate.Drawn(json.loads(json.dumps(drawn.found)))
    make = collate.Collate(counted, flags, loader.extent, again)
    assert make([[1] for _ in range(6)])[0].shape == first.shape
    assert len(tried) == collate.TRIALS + 2
    assert flags == {"variable-shape"}
    assert again.found == drawn.found


def test_batches_of_one_size_are_made_as_they_are_drawn(part: Any) -> None:
    collate, loader, flags = part("training.collation"), part("training.loaders"), set[str]()

    def noisy(samples: list[Any]) -> Any:
        return np.random.rand(len(samples))

    part("training.seeding").alike(7)
    plain = [noisy([0] * 6) for _ in range(3)]
    part("training.seeding").alike(7)
    make = collate.Collate(noisy, flags, loader.extent)
    for one in plain:
        assert np.array_equal(make([0] * 6), one)
    assert not flags
    with pytest.raises(ValueError, match="more samples"):
        collate.Collate(_alone, flags, loader.extent)([0] * 6)


def _taken(part: Any, data: Any, rows: int = 16) -> tuple[list[Any], set[str]]:
    """The first batch of a data set, and the flags."""
    loader, flags = part("training.loaders"), set[str]()
    take = loader.Largest(loader.Sparing(loader.Fetching(False, set())), flags)
    taken = take(loader.Lazy(list(range(rows)), data))
    assert take.filled or not flags
    return taken, flags


def test_samples_in_the_order_of_their_lengths_are_measured_at_the_longest(part: Any) -> None:
    rising, flags = _taken(part, Counted(sorted([5] * 900 + list(range(5, 105)))))
    assert {len(row[0]) for row in rising} == {104}
    assert flags == {"variable-shape"}
    assert any("Samples differ in size" in one for one in part("notes").notes())
    falling, _ = _taken(part, Counted(list(range(104, 4, -1))))
    assert {len(row[0]) for row in falling} == {104}


def test_a_later_epoch_looks_at_few_samples_where_these_are_as_they_were(part: Any) -> None:
    loader = part("training.loaders")
    fetching = loader.Fetching(False, set())
    data, rows = Counted([5] * 400), list(range(16))

    def longest() -> int:
        take = loader.Largest(loader.Sparing(fetching), set())
        return max(len(row[0]) for row in take(loader.Lazy(rows, data)))

    assert longest() == 5
    first = data.fetched
    assert longest() == 5
    assert data.fetched - first == loader.AGAIN + loader.FIRST
    # A sample may be a tensor, whose memory would count.
    assert fetching.sample is None
    data.lengths = [7] * 200 + [5] * 200
    assert longest() == 7


def test_copies_of_a_sample_have_arrays_of_their_own(part: Any) -> None:
    rows, _ = _taken(part, [{"box": [np.ones(4)], "text": "word " * n} for n in range(50)])
    for row in rows:
        row["box"][0] *= 2
    assert {float(row["box"][0].sum()) for row in rows} == {8.0}
    assert {row["text"] for row in rows} == {"word " * 49}


def test_samples_of_one_size_are_taken_as_they_come(part: Any) -> None:
    data = Counted([5] * 1000)
    rows, flags = _taken(part, data)
    assert [row[1] for row in rows][:8] == list(range(8))
    assert not flags


def test_texts_of_several_lengths_differ_and_names_of_files_do_not(part: Any) -> None:
    rows, flags = _taken(part, ["word " * (1 + place // 10) for place in range(100)])
    assert rows == ["word " * 10] * 16
    assert flags
    rows, flags = _taken(part, [f"img/{place}.jpg" for place in range(1000)])
    assert rows[1] == "img/1.jpg"
    assert not flags


@pytest.mark.parametrize("size", [0, 1, 5, 24, 25, 1000, 10**7])
def test_places_are_spread_over_a_list(part: Any, size: int) -> None:
    places = part("training.loaders").spread(size, 24)
    assert len(places) == min(size, 24) == len(set(places))
    assert all(0 <= one < size for one in places)
    if size > 24:
        assert places[:2] == [0, size - 1]
        gaps = sorted(places)
        assert max(b - a for a, b in itertools.pairwise(gaps)) <= size / 8 + 1


def test_made_up_files_are_of_their_kind(part: Any) -> None:
    made = part("standins.made_up_content")
    image = importlib.import_module("PIL.Image")
    assert image.open(io.BytesIO(made.content_of("a/img/1.png"))).mode == "RGB"
    mask = image.open(io.BytesIO(made.content_of("a/labels/x/1.png")))
    assert (mask.mode, mask.size) == ("L", (500, 375))
    rows = made.content_of("train_list.txt").decode().splitlines()
    for parts in (rows[1].split(), rows[1].split(" "), rows[1].split("\t")):
        assert (parts[0].strip(), int(parts[1])) == ("made1.jpg", 1)
    found = json.loads(made.content_of("instances_train.json"))
    assert {one["image_id"] for one in found["annotations"]} == {
        one["id"] for one in found["images"]
    }
    with tarfile.open(fileobj=io.BytesIO(made.content_of("w/Net_v1.tar.gz"))) as tar:
        assert tar.getnames() == ["Net_v1", "Net_v1/model.pdparams"]
    weights = pickle.loads(made.content_of("net.pdparams"))
    assert [(name, one.shape) for name, one in weights.items()] == [("made.up.weight", (1,))]
    assert made.kind_of("table.csv") is None


REQUIRED = """
import os
def asserted(path):
    assert os.path.exists(path), path
def raised(path):
    if not os.path.exists(path):
        raise ValueError(path)
def otherwise(path):
    if os.path.exists(path):
        pass
    else:
        raise ValueError(path)
def optional(path):
    if not os.path.exists(path):
        os.makedirs(path)
def fresh(path):
    assert not os.path.exists(path)
"""


@pytest.mark.parametrize(
    ("name", "required"),
    [("asserted", True), ("raised", True), ("otherwise", True), ("optional", False),
     ("fresh", False)],
)  # fmt: skip
def test_a_path_is_required_where_the_code_ends_without_it(
    part: Any, tmp_path: Path, name: str, required: bool
) -> None:
    guard = part("standins.exception_handlers")
    script = tmp_path / "asks.py"
    script.write_text(REQUIRED)
    seen: list[Any] = []

    class Asked:
        @staticmethod
        def exists(path: str) -> bool:
            seen.append(guard.is_required(sys._getframe(1)))
            return name not in ("fresh", "optional")

        @staticmethod
        def makedirs(path: str) -> None:
            """Nothing is made."""

    space: dict[str, Any] = {}
    exec(compile(REQUIRED, str(script), "exec"), space)
    space["os"] = Asked
    Asked.path = Asked  # type: ignore[attr-defined]
    space[name]("somewhere")
    assert seen == [required]


@pytest.mark.parametrize(
    ("handler", "caught"),
    [("except OSError:\n        pass", True), ("except Exception as e:\n        raise", False),
     ("except (KeyError, FileNotFoundError):\n        pass", True),
     ("except KeyError:\n        pass", False), ("except:\n        x = 1", True),
     ("except OSError:\n        sys.exit(1)", False)],
)  # fmt: skip
def test_an_error_is_caught_where_its_handler_goes_on(
    part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: str, caught: bool
) -> None:
    guard = part("standins.exception_handlers")
    # This file runs the script, as the probe does.
    monkeypatch.setattr(guard, "_RUNNER", __file__)
    script = tmp_path / "tries.py"
    script.write_text(f"def run():\n    try:\n        ask()\n    {handler}\n")
    seen: list[Any] = []
    names = ("OSError", "FileNotFoundError")
    space = {"ask": lambda: seen.append(guard.is_caught(sys._getframe(1), names))}
    exec(compile(script.read_text(), str(script), "exec"), space)
    space["run"]()  # type: ignore[operator]
    assert seen == [caught]


@pytest.mark.parametrize(
    ("error", "wanted"),
    [(RuntimeError("Download from https://paddle.example/a.zip failed."), True),
     (OSError("Network is unreachable"), True), (ValueError("3 columns passed"), False)],
)  # fmt: skip
def test_what_would_be_downloaded_is_told_by_its_error(
    part: Any, error: Exception, wanted: bool
) -> None:
    assert part("standins.devices_and_downloads").wants_network(error) is wanted
    while_handled = OSError("there is no such model")
    while_handled.__context__ = error
    assert part("standins.devices_and_downloads").wants_network(while_handled) is wanted


class Optimizer:
    """Refers to itself by a bound method, as Paddle's optimizers do."""

    def __init__(self) -> None:
        self.clear_gradients = self.clear_grad

    def clear_grad(self) -> None:
        """Do nothing."""


def test_an_object_that_only_its_own_methods_refer_to_is_unheld(part: Any) -> None:
    hooks = part("training.hooks")
    optimizer, other = Optimizer(), Optimizer()
    known, number = weakref.WeakSet([optimizer, other]), id(other)
    listed = [other]
    del other
    assert hooks.unheld(known) == []
    del listed
    assert hooks.unheld(known) == [number]
    # Where the collector has found it meanwhile there is nothing to tell.
    gc.collect()
    assert hooks.unheld(known) == []
    assert optimizer in known


def test_distances_of_missing_libraries_are_what_they_tell(part: Any) -> None:
    libraries = part("standins.small_libraries").LIBRARIES
    tell = libraries["editdistance"]["eval"]
    pairs = [("kitten", "sitting"), ("", "abc"), ("abc", ""), ("same", "same"), ([1, 2, 3], [2, 3])]
    assert [tell(*pair) for pair in pairs] == [3, 3, 3, 0, 1]
    named = libraries["rapidfuzz.distance"]["Levenshtein"]
    assert named.normalized_distance("abcd", "abxd") == 0.25
    assert named.normalized_distance("", "") == 0.0


def test_settings_of_missing_libraries_are_dictionaries_with_attributes(
    part: Any, tmp_path: Path
) -> None:
    libraries = part("standins.small_libraries").LIBRARIES
    node = libraries["yacs.config"]["CfgNode"]
    base = node()
    base.MODEL = node({"SIZES": (1, 2), "NAME": "a"})
    base.LR = 0.1
    own = base.clone()
    (tmp_path / "own.yaml").write_text("MODEL:\n  SIZES: [3, 4]\nLR: '1e-3'\n")
    own.defrost()
    own.merge_from_file(str(tmp_path / "own.yaml"))
    own.merge_from_list(["MODEL.NAME", "b", "LR", "0.5"])
    own.freeze()
    assert (own.MODEL.SIZES, own.MODEL.NAME, own.LR) == ((3, 4), "b", 0.5)
    assert (base.MODEL.SIZES, base.LR) == ((1, 2), 0.1)
    assert node.load_cfg(own.dump()).MODEL.SIZES == [3, 4]
    easy = libraries["easydict"]["EasyDict"]({"net": {"width": 8}, "heads": [{"size": 2}]}, lr=1)
    easy.net.depth = 3
    assert (easy.net, easy.heads[0].size, easy.lr) == ({"width": 8, "depth": 3}, 2, 1)
    assert not hasattr(easy, "other")
    assert pickle.loads(pickle.dumps(easy)) == easy
    grown = libraries["addict"]["Dict"]()
    grown.net.width = 8
    assert grown.to_dict() == {"net": {"width": 8}}


def test_a_script_may_ask_git_about_a_project_of_another_user(part: Any, tmp_path: Path) -> None:
    asked = {"root": str(tmp_path), "mode": "meta", "env": {"HOME": str(tmp_path)}}
    environment = part("measure").environment(asked)
    said = subprocess.run(
        ["git", "config", "--get-all", "safe.directory"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "*\n"


def test_nothing_is_made_up_through_a_link(part: Any, tmp_path: Path) -> None:
    root, outside = tmp_path / "copy", tmp_path / "outside"
    for folder in (root / "own", outside):
        folder.mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "dangling").symlink_to(outside / "new")
    (root / "own" / "list.txt").symlink_to(outside / "list.txt")
    maker = part("standins.missing_files").Maker(str(root))
    for path in ("link/a.jpg", "link/deep/b.jpg", "dangling", "own/list.txt", "dangling/c.jpg"):
        assert not maker.file(str(root / path), "a picture")
    assert not maker.folder(str(root / "link"))
    assert not maker.folder(str(root / "link" / "deep"))
    with pytest.raises(OSError, match="link"):
        maker.fill(str(root / "link"), True)
    assert list(outside.iterdir()) == []
    assert maker.file(str(root / "new" / "deep" / "a.jpg"))
    for hidden in (".fonts", ".local/share/fonts"):
        assert not maker.folder(str(root / hidden))
        assert not (root / hidden).exists()
    assert maker.folder(str(root / "classes"))
    maker.fill(str(root / "classes"), True)
    assert len(list((root / "classes").rglob("*.jpg"))) > 2
    below = part("standins.safe_writes")
    with pytest.raises(OSError, match="is not below"):
        below.write(str(root), str(outside / "x"), b"")
    with pytest.raises(OSError, match="link"):
        below.remove(str(root), str(root / "link" / "x"))


def test_a_file_that_has_to_be_new_replaces_no_link(tmp_path: Path) -> None:
    project, root = tmp_path / "project", tmp_path / "copy"
    for folder in (project, root / "own"):
        folder.mkdir(parents=True)
    (project / "large.bin").write_text("real")
    (root / "made.jpg").symlink_to(project / "large.bin")
    code = (
        "import os\nfrom gpuconsole.preflight.probe.runs import project_copy\n"
        "from gpuconsole.preflight.probe.standins import safe_writes\n"
        f"project_copy.guard_links({str(project)!r})\n"
        f"os.chdir({str(root)!r})\n"
        f"safe_writes.write({str(root)!r}, {str(root / 'own' / 'made.jpg')!r}, b'new')\n"
    )
    # In a process of its own: an audit hook stays for good.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)
    assert (root / "made.jpg").is_symlink()
    assert (root / "own" / "made.jpg").read_text() == "new"


def test_a_module_of_the_project_goes_before_a_library_of_its_name(
    part: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finder = part("standins.missing_modules").OwnFirst(tmp_path)
    for name in ("data/faces", "empty/faces", "faces"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("data/faces/__init__.py", "faces/__init__.py", "data/json.py"):
        (tmp_path / name).touch()
    asked = compile("found = finder.find_spec(name)", str(tmp_path / "train.py"), "exec")

    def found(name: str, *places: str) -> str:
        own: dict[str, Any] = {"finder": finder, "name": name}
        with monkeypatch.context() as patched:
            added = [str(tmp_path / one) for one in places]
            patched.setattr(sys, "path", [*sys.path, *added])
            exec(asked, own)
        spec = own["found"]
        return "" if spec is None else str(Path(spec.origin).relative_to(tmp_path))

    assert found("faces", "data", "") == "data/faces/__init__.py"
    assert found("faces", "empty", "") == ""
    # The project's own folder is on the path of every script, behind libraries.
    assert found("faces", "") == ""
    assert found("faces", "", "") == "faces/__init__.py"
    assert found("json", "data", "") == ""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "data")])
    assert finder.find_spec("faces") is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("setup.py", "from setuptools import setup\nsetup(name='pytest', packages=[])\n"),
        ("pyproject.toml", '[project]\nname = "pytest"\n'),
        ("setup.cfg", "[metadata]\nname = pytest\n"),
        ("setup.py", "setup(version='1')\n"),
        ("setup.py", "setup(name='a-project-that-is-not-installed')\n"),
    ],
)
def test_a_project_goes_before_the_installed_library_that_it_is(
    part: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str
) -> None:
    """As `pip install -e .` would put it there; another library of a module's name stays."""
    (tmp_path / name).write_text(text)
    for module in ("pytest", "click"):
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    own: dict[str, Any] = {"finder": part("standins.missing_modules").OwnFirst(tmp_path)}
    asked = "found = [finder.find_spec(name) for name in ('pytest', 'click')]"
    exec(compile(asked, str(tmp_path / "train.py"), "exec"), own)
    hidden, other = own["found"]
    assert (hidden is not None) is ("pytest" in text)
    assert other is None


FIRST = {
    "own_batch": 8, "numbers_at": ["train.py:4"], "whole": False, "drawn": [None, 7],
    "names": ["matmul"], "choices": {}, "events": [0, 1, 2, ~1, ~2], "cycles": [3, 5],
    "sizes": [64, 800, 40],
}  # fmt: skip
AHEAD = {"size": 16, "number": 16, "part": 4}


def test_further_runs_are_asked_to_go_as_far_as_the_first_told(part: Any) -> None:
    ahead, asked = part("runs.forking"), {"size": 8, "batch": {"how": "loader"}}
    short = ahead.changes(asked, AHEAD, ahead.summary_of(FIRST))
    made = [(one["until"], one["whole"], one["drawn"]) for one in short]
    assert made == [(0, False, [None, 7])] * 2
    late = ahead.changes(asked, AHEAD, ahead.summary_of({**FIRST, "until": 12}))
    assert [one["until"] for one in late] == [12, 12]
    ended = ahead.changes(asked, AHEAD, ahead.summary_of({**FIRST, "until": 12, "reached": "end"}))
    assert min(one["until"] for one in ended) > 10**6, "their epochs may have more batches"
    long = {**FIRST, "numbers_at": [], "choices": {f"nonzero: {ahead.OPEN}": 1}}
    runs = ahead.changes(asked, AHEAD, ahead.summary_of(long))
    assert [(one["size"], one.get("part")) for one in runs] == [(16, None), (8, 4)]


class Told(Exception):  # noqa: N818 - it ends a run as the end of its process does
    """Stands for the end of a process."""


@pytest.fixture
def divided(part: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Divide as in a measurement, with a script that makes the blocks it is given for a size and a
    number; return what was run at which, and what was told."""
    ahead = part("runs.forking")
    channel_of = part("run").Channel
    monkeypatch.setattr(channel_of, "__init__", lambda self: None)

    def go(blocks: Any, **first: Any) -> tuple[list[Any], list[Any]]:
        ran: list[Any] = []
        told: list[Any] = []
        request = {"size": 8, "batch": {"how": "loader"}, "ahead": AHEAD}
        channel = channel_of()
        channel.place, channel.told, channel.grows, channel.reads = 0, None, None, None
        monkeypatch.setattr(channel_of, "say", lambda self, message: told.append(message["run"]))

        def run() -> Any:
            size, number = request["size"], request.get("number", 1)
            ran.append((size, number))
            made = {**FIRST, "sizes": blocks(size, number), **first}
            if channel.place == 0:
                channel.seen.put(made)
            if channel._alike({"run": made}):
                channel.say({"run": made})
                return ahead.summary_of(made)
            return {}

        def ended(code: int) -> None:
            raise Told

        monkeypatch.setattr(ahead, "_copied", lambda _: run())
        monkeypatch.setattr(ahead.os, "_exit", ended)
        ahead.install(request, channel, lambda _: None)
        monkeypatch.setattr(ahead.threading, "active_count", lambda: 1)
        try:
            ahead.reached()
        except Told:
            return ran, told
        run()
        return ran, told

    return go


def test_another_size_and_other_numbers_are_tried_in_one_run(divided: Any) -> None:
    """Where each block is the same or grows as the batch does, no number decides on it."""
    ran, told = divided(lambda size, number: [64, 100 * size, 5 * size])
    assert ran == [(8, 1), (16, 16)]
    assert told[1]["settled"]


@pytest.mark.parametrize(
    "blocks",
    [
        lambda size, number: [64, 100 * size, 4 * number],
        lambda size, number: [64, 100 * size + 4 * number, 40],
        lambda size, number: [64, 100 * size, 40, *[8] * number],
        lambda size, number: [64, 100 * size, 4 * size + 3],
    ],
    ids=["as long as the number", "partly", "more of them", "no multiple of the batch"],
)
def test_what_one_run_does_not_tell_two_do(divided: Any, blocks: Any) -> None:
    ran, told = divided(blocks)
    assert ran == [(8, 1), (16, 16), (16, 1), (8, 16)]
    assert len(told) == 3
    assert not any("settled" in one for one in told)


@pytest.mark.parametrize("fact", [{"names": ["nonzero"]}, {"past_half": True}])
def test_numbers_are_tried_alone_where_a_run_of_both_tells_nothing(
    divided: Any, fact: dict[str, Any]
) -> None:
    """Data decides on lengths, or an epoch has fewer batches of another size."""
    ran, _ = divided(lambda size, number: [64, 100 * size, 40], **fact)
    assert ran == [(8, 1), (16, 1), (8, 16)]


BEGUN = {"events": [0, 1, 2, ~1, ~2, 3], "cycles": [5], "sizes": [64, 800, 40, 8],
         "kind": [0, 0, 0, 0]}  # fmt: skip


def test_which_of_two_blocks_goes_first_is_no_difference(part: Any) -> None:
    seen = part("runs.forking").Seen()
    seen.put(BEGUN)
    assert seen.grown(BEGUN, 2)
    assert seen.grown({**BEGUN, "events": [0, 1, 2, ~2, ~1, 3]}, 2)
    assert not seen.grown({**BEGUN, "events": [0, 1, ~1, 2, ~2, 3]}, 2)
    assert not seen.grown({**BEGUN, "cycles": [4]}, 2)
    assert part("runs.forking").in_order([0, 1, ~1, ~0], [3]) == [0, 1, ~1, ~0]


@pytest.mark.parametrize(
    ("change", "may_be"),
    [
        ({}, True),
        ({"sizes": [64, 1600, 80, 8]}, True),
        ({"events": [0, 1, 2, ~2], "sizes": [64, 800, 40], "cycles": []}, True),
        ({"sizes": [64, 1601, 80, 8]}, False),
        ({"sizes": [64, 1601, 80, 8], "kind": [0, 5, 0, 0]}, True),
        ({"events": [0, 1, ~1, 2], "sizes": [64, 800, 40], "cycles": []}, False),
        ({"events": [*BEGUN["events"], 4], "sizes": [*BEGUN["sizes"], 8]}, False),
    ],
)
def test_a_run_that_begins_in_another_way_is_known_before_it_ends(
    part: Any, change: dict[str, Any], may_be: bool
) -> None:
    seen = part("runs.forking").Seen()
    seen.put(BEGUN)
    assert seen.begins({**BEGUN, **change}, 2) is may_be


def test_lines_of_a_made_up_list_take_the_form_in_which_they_are_read(part: Any) -> None:
    lines = part("standins.made_up_lines")
    lines.NUMBER["of"] = lambda number: 10 * number
    read = lines.Lines("made4.jpg \t0\nmade5.jpg \t1\n")
    name, kind = next(read).strip().split(",")
    assert (str(name), int(kind), float(name)) == ("made4.jpg", 0, 40.0)
    second = read.readline()
    user, item, rating, when = map(int, second.split("::"))
    assert (user, item, rating, when) == (50, 10, 10, 10)
    assert second.split()[7] == "1"
    assert list(map(int, second.split()[1:])) == [10]
    assert [len(one.split()) for one in second.splitlines()] == [2]
    with pytest.raises(IndexError):
        second.split()[lines.MOST]


def test_only_files_that_were_made_up_are_read_so(part: Any, tmp_path: Path) -> None:
    source = (
        "import sys, pathlib\n"
        "from gpuconsole.preflight.probe.standins import made_up_lines\n"
        "made, own = pathlib.Path(sys.argv[1], 'made.txt'), pathlib.Path(sys.argv[1], 'own.txt')\n"
        "for one in (made, own):\n    one.write_text('a 1\\n')\n"
        "made_up_lines.install({str(made)})\n"
        "a, b, c = open(made).readline().split('|')\n"
        "assert int(made.read_text().split()[1]) == 1 and open(made, 'rb').read() == b'a 1\\n'\n"
        "assert type(open(own).readline()) is str\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


FILTERED = """
import os

def annotations(folder):
    return [one for one in os.listdir(folder) if one.endswith(".xml")]

def both(folder, other):
    if other.endswith(".txt"):
        return [one for one in os.listdir(folder) if os.path.splitext(one)[1] in (".png", ".bmp")]

def any_of(folder):
    found = []
    for where, _, names in os.walk(folder):
        found += sorted(names, key=lambda one: int(one.split(".")[0]))
    return found
"""


def test_a_folder_is_filled_with_what_is_looked_for_in_it(part: Any, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "reader.py").write_text(FILTERED)
    source = (
        "import sys, os\nsys.path[:0] = sys.argv[1:2]\n"
        "from gpuconsole.preflight.probe.standins import missing_files\nimport reader\n"
        "missing_files.install(sys.argv[1])\nos.chdir(sys.argv[1])\n"
        "assert set(reader.annotations('notes')) == {f'{n:06d}.xml' for n in range(256)}\n"
        "assert reader.both('masks', 'a.txt')[0].endswith('.png')\n"
        "assert reader.any_of('pictures')[0] == '000000.jpg'\n"
        "people = os.listdir('market/bounding_box_train')\n"
        "assert len({one.split('_')[0] for one in people}) > 1 and '_c1s1_' in min(people)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(project)],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_vocabularies_have_words_of_tokenizers(part: Any) -> None:
    made = part("standins.made_up_content")
    assert made.kind_of("bert-base-vocab.txt") == made.kind_of("vocab.json") == "a vocabulary"
    words = made.content_of("vocab.txt").decode().splitlines()
    assert len(words) == len(set(words)) == made.WORDS
    assert {"[PAD]", "[CLS]", "a", "##a", "word", "<s>"} <= set(words)
    assert json.loads(made.content_of("vocab.json"))["word"] == words.index("word")


def test_a_vocabulary_is_a_number_of_unknown_data(part: Any) -> None:
    """A network may be as wide as it is long: another run is given another one."""
    made, lines = part("standins.made_up_content"), part("standins.made_up_lines")
    lines.NUMBER["of"] = lambda number: 16 * number
    words = made.content_of("vocab.txt").decode().splitlines()
    assert len(words) == len(set(words)) > made.WORDS
    assert len(json.loads(made.content_of("vocab.json"))) == len(words)


SET = """
class Tasks:
    KINDS = {"one": ["yes", "no"], "pair": None, "tags": ["O", "B"]}

    def __init__(self, name):
        self.name = name

    def get_labels(self):
        return self.KINDS[self.name]

    def _read(self, filename, split):
        with open(filename) as file:
            for line in file:
                if self.name in ("one", "other"):
                    yield {"text": line} if "test" in split else {"text": line, "labels": line[0]}
                elif self.name == "tags":
                    yield {"tokens": line.split(), "labels": line}
                elif self.name == "pair":
                    yield {"qid": 1, "answers": [], "score": line, "label": 0.5}
                else:
                    yield dict(line)
"""


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("one", {"text": 600, "labels": "yes"}),
        ("tags", {"tokens": 600, "labels": ["O"] * 600}),
        ("pair", {"qid": 1, "answers": ["word"], "score": 600, "label": 0.0}),
        ("other", {"text": 600, "labels": "no"}),
        ("unknown", None),
    ],
)
def test_rows_of_a_data_set_have_the_fields_that_its_reader_gives(
    part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, row: Any
) -> None:
    (tmp_path / "own_tasks.py").write_text(SET)
    monkeypatch.syspath_prepend(str(tmp_path))
    tasks = importlib.import_module("own_tasks").Tasks
    monkeypatch.setitem(tasks.KINDS, "other", ["no"])
    made = part("standins.paddlenlp_datasets").row(tasks(name))

    def short(value: Any) -> Any:
        words = value.split() if isinstance(value, str) else value
        many = isinstance(words, list) and len(words) > 1 and set(words) == {"word"}
        return len(words) if many else value

    if made is not None and made.get("qid"):
        assert made["qid"] == "word"
        made["qid"] = 1
    assert (made and {key: short(one) for key, one in made.items()}) == row


def test_files_that_a_hub_need_not_have_are_not_there(part: Any) -> None:
    network = part("standins.hub_files")
    assert b"[CLS]" in network.answer("https://hub.example/bert/vocab.txt")
    weights = part("standins.made_up_content").weights()
    assert network.answer("https://hub.example/resnet50.pth") == weights
    assert network.answer("https://hub.example/data/train.txt") is None

    class HTTPAdapter:
        def send(self, request: Any) -> str:
            return "over the network"

    adapters = types.SimpleNamespace(
        HTTPAdapter=HTTPAdapter, Response=lambda: types.SimpleNamespace(headers={})
    )
    network._serve_requests(adapters)

    def status(path: str) -> Any:
        asked = types.SimpleNamespace(method="HEAD", url=f"https://hub.example/{path}")
        reply: Any = HTTPAdapter().send(asked)
        return getattr(reply, "status_code", reply)

    assert status("bert/special_tokens_map.json") == 404
    assert status("bert/model_state.pdparams") == 200
    assert status("data/train.txt") == "over the network"


def test_a_file_whose_address_says_nothing_is_made_up_by_its_name(
    part: Any, tmp_path: Path
) -> None:
    network = part("standins.hub_files")
    retrieved = network._kept(lambda url, filename=None: ("over the network", url))
    address = "https://drive.example/file/d/1R4cb6/view?usp=sharing"
    name, headers = retrieved(address, tmp_path / "resnet50.pdparams")
    weights = part("standins.made_up_content").weights()
    assert name.read_bytes() == weights
    assert headers["Content-Length"] == str(len(weights))
    assert retrieved(address, str(tmp_path / "data.bin"))[0] == "over the network"
    assert retrieved("https://drive.example/a.pdparams", str(tmp_path / "a.pdparams"))[0] == (
        "over the network"
    )


def test_what_was_tried_again_without_end_is_told_by_its_own_error(part: Any) -> None:
    run = part("run")

    def sample(index: int) -> Any:
        try:
            raise KeyError("no such note")
        except KeyError:
            return sample(index + 1)

    with pytest.raises(RecursionError) as caught:
        sample(0)
    assert isinstance(run.retried(caught.value), KeyError)

    def loop() -> Any:
        return loop()

    with pytest.raises(RecursionError) as caught:
        loop()
    assert run.retried(caught.value) is caught.value


def test_parts_of_a_checkpoint_that_is_not_here_hold_nothing(part: Any) -> None:
    loaded = part("standins.devices_and_downloads").Nothing()
    assert loaded["state_dict"] == {} == loaded["model"]["backbone"]
    assert (loaded["start_epoch"], loaded["best_acc"], loaded.get("epoch")) == (0, 0.0, None)
    assert "model" not in loaded
    assert not list(loaded)
    counted = loaded["inter"]
    assert (counted + 1, 2 - counted, list(range(counted, 2)), float(counted)) == (1, 2, [0, 1], 0)
    assert counted < 1 <= 1 + counted
    assert loaded["best"]["best_acc"] == 0.0
    assert f"{counted:.1f}" == "0.0"
    made = part("standins.made_up_content")
    assert made.is_weights(pickle.loads(made.weights()))
    assert not made.is_weights({"a": 1})


def test_code_of_the_project_finds_what_mmcv_left_to_mmengine(
    part: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine, mmcv = types.ModuleType("mmengine"), types.ModuleType("mmcv")
    engine.Config = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mmengine", engine)
    part("standins.older_versions")._moved(mmcv, str(tmp_path))
    found: dict[str, Any] = {"mmcv": mmcv}
    exec(compile("kind = mmcv.Config", str(tmp_path / "train.py"), "exec"), found)
    assert found["kind"] is dict
    with pytest.raises(AttributeError):
        assert mmcv.Config


def test_code_of_the_project_gives_pandas_by_place_what_it_takes_by_name_only(
    part: Any, tmp_path: Path
) -> None:
    class Frame:
        def drop(self, labels: str, *, axis: int = 0, level: int = 0) -> tuple[str, int, int]:
            return labels, axis, level

    pandas = types.SimpleNamespace(DataFrame=Frame, Series=type("Series", (), {}))
    part("standins.older_versions")._by_place(pandas, str(tmp_path))
    frame: Any = Frame()
    found: dict[str, Any] = {"frame": frame}
    exec(compile("left = frame.drop('date', 1, level=2)", str(tmp_path / "x.py"), "exec"), found)
    assert found["left"] == ("date", 1, 2)
    with pytest.raises(TypeError):
        frame.drop("date", 1)


def test_code_of_the_project_reads_tables_with_options_that_are_no_more(
    part: Any, tmp_path: Path
) -> None:
    class Frame:
        def items(self) -> list[str]:
            return ["column"]

    def read(path: str, sep: str = ",", on_bad_lines: str = "error") -> tuple[str, str, str]:
        return path, sep, on_bad_lines

    pandas = types.SimpleNamespace(
        DataFrame=Frame, Series=type("Series", (Frame,), {}), read_csv=read, read_table=read
    )
    part("standins.older_versions")._older_pandas(pandas, str(tmp_path))
    found: dict[str, Any] = {"pandas": pandas}
    text = (
        "left = pandas.read_csv('a', delim_whitespace=True, error_bad_lines=False)\n"
        "names = pandas.DataFrame().iteritems()\n"
    )
    exec(compile(text, str(tmp_path / "x.py"), "exec"), found)
    assert found["left"] == ("a", r"\s+", "skip")
    assert found["names"] == ["column"]
    with pytest.raises(TypeError):
        pandas.read_csv("a", delim_whitespace=True)
    with pytest.raises(AttributeError):
        pandas.DataFrame().iteritems()


class _Gym:
    """What stands for `gym` of 0.26."""

    __version__ = "0.26.2"

    class Wrapper:
        def __init__(self, env: Any) -> None:
            self.env = env

    class Env:
        def reset(self, seed: int | None = None) -> tuple[str, dict[str, int | None]]:
            return "seen", {"seed": seed}

        def step(self, action: int) -> tuple[str, int, bool, bool, dict[str, int]]:
            return "next", 1, False, action > 0, {}

    def __init__(self) -> None:
        self.make: Any = lambda name: self.Env()


@pytest.mark.parametrize(
    ("step", "seen"), [("a, b, done, _ = env.step(1)", "seen"), ("a, b, done, cut, _ = env.step(1)",
                                                                ("seen", {"seed": None}))]
)  # fmt: skip
def test_environments_give_what_the_script_takes(
    part: Any, tmp_path: Path, step: str, seen: Any
) -> None:
    gym: Any = _Gym()
    part("standins.gym_environments").older(gym, str(tmp_path))
    script = tmp_path / "train.py"
    script.write_text(f"env = gym.make('Cart')\nfirst = env.reset()\n{step}\n")
    found: dict[str, Any] = {"gym": gym}
    exec(compile(script.read_text(), str(script), "exec"), found)
    assert found["first"] == seen
    assert found["a"] == "next"
    assert found["done"] is (seen == "seen")
    assert type(gym.make("Cart")) is _Gym.Env


def test_code_of_the_project_reads_bytes_with_fromstring(part: Any, tmp_path: Path) -> None:
    def refused(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "") -> Any:
        if sep == "":
            raise ValueError("The binary mode of fromstring is removed")
        return string.split(sep)

    library: Any = types.SimpleNamespace(fromstring=refused, frombuffer=np.frombuffer)
    part("standins.older_versions")._of_bytes(library, str(tmp_path))
    found: dict[str, Any] = {"np": library}
    text = (
        "left = np.fromstring(b'abc', dtype='uint8')\n"
        "left[0] = 1\n"
        "words = np.fromstring('1 2', sep=' ')"
    )
    exec(compile(text, str(tmp_path / "x.py"), "exec"), found)
    assert found["left"].tolist() == [1, 98, 99]
    assert found["words"] == ["1", "2"]
    with pytest.raises(ValueError, match="removed"):
        library.fromstring(b"abc", "uint8")


def test_code_of_the_project_may_give_an_option_that_did_nothing_and_is_no_more(
    part: Any, tmp_path: Path
) -> None:
    linalg = types.SimpleNamespace(__name__="linalg", solve=lambda a, lower=False: (a, lower))
    part("standins.older_versions")._idle(linalg, "solve", "debug", str(tmp_path))
    found: dict[str, Any] = {"linalg": linalg}
    text = "left = linalg.solve(2, lower=True, debug=None)"
    exec(compile(text, str(tmp_path / "x.py"), "exec"), found)
    assert found["left"] == (2, True)
    with pytest.raises(TypeError):
        linalg.solve(2, debug=None)


def test_a_tokenizer_model_that_is_not_there_is_made_up(part: Any, tmp_path: Path) -> None:
    pieces = part("standins.sentencepiece_models")
    assert pieces.is_model("bert/sentencepiece.model")
    assert not pieces.is_model("resnet50.model")
    assert part("standins.made_up_content").kind_of("t5/spiece.model") == "a vocabulary"
    model = pieces.model()
    assert part("standins.hub_files").answer("https://hub.example/t5/spiece.model") == model

    class Processor:
        def LoadFromFile(self, filename: str) -> Any:  # noqa: N802 - as the library has it
            return filename

        def LoadFromSerializedProto(self, proto: bytes) -> Any:  # noqa: N802
            return proto

    pieces.serve(types.SimpleNamespace(SentencePieceProcessor=Processor))
    assert Processor().LoadFromFile(str(tmp_path / "a.model")) == model
    assert Processor().LoadFromFile(__file__) == __file__


def test_git_finds_nothing_new_where_there_is_no_network(part: Any, tmp_path: Path) -> None:
    for words in (["init", "-q"], ["remote", "add", "origin", str(tmp_path / "gone")]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    network = part("standins.hub_files")
    asks = """
import os, subprocess
from gpuconsole.preflight.probe.standins import hub_files
hub_files.install()
line = "if [ -d .git ]; then git fetch && git remote; fi"
assert subprocess.check_output(line, shell=True) == b"origin\\n"
assert not subprocess.run(["git", "pull", "-q"]).returncode and not os.system("git fetch")
assert subprocess.run(["git", "log"], capture_output=True).returncode
"""
    subprocess.run([sys.executable, "-c", asks], cwd=tmp_path, check=True)
    for other, shell in (("git status", True), (["git", "log"], False), ("python fetch.py", True)):
        assert network.offline(other, shell) == other


def test_code_of_the_project_makes_arrays_of_rows_that_are_not_alike(
    part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = part("standins.older_versions")
    for name in ("array", "asarray"):
        monkeypatch.setattr(np, name, getattr(np, name))
    older._uneven(np, tmp_path)
    uneven: list[Any] = [[1, 2], [3]]
    mine: dict[str, Any] = {"numpy": np, "rows": uneven}
    code = "made, other = numpy.array(rows), numpy.asarray(rows)"
    exec(compile(code, str(tmp_path / "train.py"), "exec"), mine)
    assert mine["made"].dtype == mine["other"].dtype == object
    assert mine["made"].tolist() == uneven
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.array(uneven)
    with pytest.raises(ValueError, match="inhomogeneous"):
        exec(compile("numpy.array(rows, dtype='float32')", str(tmp_path / "a.py"), "exec"), mine)
    between = "def choose(rows): return numpy.array(rows)"
    exec(compile(between, f"{older._OWN[1]}script/answers.py", "exec"), mine)
    exec(compile("drawn = choose(rows)", str(tmp_path / "train.py"), "exec"), mine)
    assert mine["drawn"].dtype == object
    with pytest.raises(ValueError, match="inhomogeneous"):
        mine["choose"](uneven)


@pytest.mark.parametrize(
    ("number", "left_out"), [(errno.ENOSPC, True), (errno.EACCES, False)], ids=["full", "forbidden"]
)
def test_what_the_sandbox_has_no_room_for_is_not_saved(
    part: Any, tmp_path: Path, number: int, left_out: bool
) -> None:
    saving = part("standins.saving")
    path = tmp_path / "model.pdparams"

    def save(_: Any, where: Path) -> None:
        where.write_bytes(b"half of it")
        raise OSError(number, os.strerror(number))

    if left_out:
        saving.roomy(save)({}, path)
        assert not path.exists()
        assert any("left out" in one for one in part("notes").notes())
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            saving.roomy(save)({}, path)


def test_a_batch_in_proportion_to_others_tells_what_its_rounding_adds(
    part: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = part("training.batch_size")
    monkeypatch.setattr(batch, "_SIZES", {"value": 64, "size": 2})
    assert batch.replaced(7) == 1
    assert batch.share(7) == pytest.approx(2 * 7 / 64)
    assert batch.share(64) == batch.share(None) == 1
    monkeypatch.setattr(batch, "_SIZES", {})
    assert batch.share(7) == 1
