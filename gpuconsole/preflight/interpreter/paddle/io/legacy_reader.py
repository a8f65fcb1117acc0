"""`paddle.batch` and `paddle.reader`: readers as functions that give samples one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from gpuconsole.preflight.interpreter.domain import lengths
from gpuconsole.preflight.interpreter.domain.values import (
    Blocked,
    More,
    Namespace,
    NativeFunction,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.generators import Walk
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.io.dataloader import put_in

MAX_BATCHES = 512
MAX_UNUSED = 4
"""Batches that a loop which trains nothing is given."""


def _creator(walk: Callable[[Run], Iterator[Value]]) -> Value:
    return NativeFunction(lambda run, *_: Walk(walk(run)), "reader")


def _items(run: Run, reader: Value) -> Iterator[Value]:
    return run.interp.iterate(run.interp.call(reader, [], {}))


def batch(run: Run, reader: Value, batch_size: Value, drop_last: Value = False) -> Value:
    """`paddle.batch`: lists of samples; all are like the first."""

    def walk(run: Run) -> Iterator[Value]:
        size = put_in(run, batch_size)
        if run.setting.batch is not None and not run.setting.batch_key:
            size = run.setting.batch
        unknown = first_unknown(size)
        if unknown is not None:
            raise Blocked(unknown)
        run.found_batch(size)
        samples = list(islice((lengths.likeness(item) for item in _items(run, reader)), 1))
        before = run.progress.backwards
        for count in range(MAX_BATCHES if samples else 0):
            if count >= MAX_UNUSED and run.progress.optimizers and run.progress.backwards == before:
                break
            run.interp.tick(size // 16)
            yield samples * size
        why = run.unknown("how many batches a reader gives")
        yield More(why.file, why.line, why.reason, why.root, lengths.of_unknown(why))

    return _creator(walk)


def _same(run: Run, reader: Value, *_: Value, **__: Value) -> Value:
    return reader


def _first(run: Run, reader: Value, n: Value) -> Value:
    return _creator(lambda run: islice(_items(run, reader), n))


def _chain(run: Run, *readers: Value) -> Value:
    return _creator(lambda run: (item for reader in readers for item in _items(run, reader)))


def _compose(run: Run, *readers: Value, **_: Value) -> Value:
    def walk(run: Run) -> Iterator[Value]:
        for parts in zip(*(_items(run, reader) for reader in readers), strict=False):
            joined: list[Value] = []
            for part in parts:
                joined.extend(part if isinstance(part, tuple) else (part,))
            yield tuple(joined)

    return _creator(walk)


def _mapped(run: Run, function: Value, *readers: Value) -> Value:
    def walk(run: Run) -> Iterator[Value]:
        for parts in zip(*(_items(run, reader) for reader in readers), strict=False):
            yield run.interp.call(function, list(parts), {})

    return _creator(walk)


def _mapped_by_workers(run: Run, function: Value, reader: Value, *_: Value, **__: Value) -> Value:
    return _mapped(run, function, reader)


def _several(run: Run, readers: Value, *_: Value, **__: Value) -> Value:
    return _chain(run, *readers)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "shuffle": _same, "buffered": _same, "cache": _same, "firstn": _first, "chain": _chain,
    "compose": _compose, "map_readers": _mapped, "xmap_readers": _mapped_by_workers,
    "multiprocess_reader": _several,
}  # fmt: skip


def namespace() -> Namespace:
    """Return `paddle.reader`."""
    names: dict[str, Value] = {
        name: NativeFunction(call, f"paddle.reader.{name}") for name, call in FUNCTIONS.items()
    }
    space = Namespace("paddle.reader", names)
    names["decorator"] = space
    return space
