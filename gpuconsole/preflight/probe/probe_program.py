"""A program's operators, replayed as the dynamic graph would run them: births and deaths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from probe_kernels import convolved, kernel_needs, nbytes

VIEWS = {"reshape", "flatten", "squeeze", "unsqueeze", "transpose", "slice", "strided_slice",
         "split", "split_with_num", "unbind", "view_shape", "view_dtype", "as_strided",
         "reshape_grad", "flatten_grad", "squeeze_grad", "unsqueeze_grad", "transpose_grad",
         "trans_layout", "diagonal", "share_data"}  # fmt: skip
"""Operators of the dynamic graph whose outputs lie in their input's memory."""
STRIDED = {"transpose", "strided_slice", "split", "split_with_num", "unbind", "diagonal", "slice",
           "transpose_grad"}  # fmt: skip
"""Views that are not contiguous: a kernel that reads one copies it first."""
NOTHING = {"full_int_array", "parameter", "data", "combine", "shadow_output", "set_parameter",
           "constant", "fetch"}  # fmt: skip
STATES = {"SGD": 0, "Momentum": 1, "Adagrad": 1, "RMSProp": 3, "Adadelta": 2, "Adamax": 2,
          "Adam": 2, "AdamW": 2, "Lamb": 2, "NAdam": 2, "RAdam": 2, "ASGD": 2, "Rprop": 2,
          "LBFGS": 0}  # fmt: skip
"""Optimizer states beside each parameter, in parameters."""


class Unsupported(Exception):  # noqa: N818 - an answer, not a mistake
    """The program does not tell the memory."""


def key_of(value: Any) -> Any:
    """Return a name of a value that its wrappers share."""
    return value.hash()


class Block:
    """A piece of memory with the values that lie in it."""

    __slots__ = ("index", "uses")

    def __init__(self, index: Any) -> None:
        self.index = index
        self.uses = 0


class Replay:
    """Two steps of a program: what the second needs beyond the first is the steady state."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.program = session.program
        self.events: list[Any] = []
        self.sizes: list[Any] = []
        self.names: list[Any] = []
        self.kinds: list[Any] = []
        self.inside: list[Any] = []
        self.cycles: list[Any] = []
        self.blocks: dict[Any, Any] = {}
        self.strided: set[Any] = set()
        self.kept: dict[Any, Any] = {}
        self.widest = 0
        self.ops = list(self.program.global_block().ops)
        self.stale: dict[Any, Any] = {}
        self.later: dict[Any, Any] = {}
        self.at = -1
        self.rules = session.request.get("operators", {})

    def born(self, size: Any, name: Any, kind: Any = 0) -> Any:
        """Take a block."""
        index = len(self.sizes)
        self.sizes.append(int(size))
        self.names.append(name)
        self.kinds.append(kind)
        self.events.append(index)
        return index

    def dead(self, index: Any) -> None:
        """Give a block back."""
        self.events.append(~index)

    def within(self, sizes: Any, name: Any) -> None:
        """Take and give back what a kernel needs while it runs."""
        made = [self.born(size, name) for size in sizes if size]
        self.inside += made
        for one in made:
            self.dead(one)

    def run(self) -> Any:
        """Replay two steps and return the recording."""
        self.persistent()
        self.waiting()
        last = self.last_uses()
        held: dict[Any, Any] = {}
        for _ in range(2):
            held = self.step(last, held)
            self.cycles.append(len(self.events))
        words = sorted(set(self.names))
        number = {word: place for place, word in enumerate(words)}
        return {
            "events": self.events,
            "cycles": self.cycles,
            "sizes": self.sizes,
            "names": words,
            "name": [number[one] for one in self.names],
            "kind": self.kinds,
            "inside": self.inside,
            "widest_conv": self.widest,
        }

    def persistent(self) -> None:
        """Parameters and buffers of all layers."""
        seen = set()
        for layer in (one() for one in self.session.layers):
            if layer is None:
                continue
            for one in list(layer._parameters.values()) + list(layer._buffers.values()):
                if one is not None and id(one) not in seen:
                    seen.add(id(one))
                    self.born(nbytes(one), "parameter", 1)

    def waiting(self) -> None:
        """A batch of each reader, as a block that stands for those held ready."""
        for key in sorted(self.session.waiting):
            self.born(sum(nbytes(one) for one in self.session.waiting[key]), "reader", 5)

    def last_uses(self) -> Any:
        """Return for each value the place of the last operator that needs its memory."""
        last = {}
        for place, op in enumerate(self.ops):
            for value in _operands(op):
                last[key_of(value)] = place
        for _, values in self.session.held:
            for value in values:
                last[key_of(value)] = len(self.ops)
        return last

    def step(self, last: Any, stale: Any) -> Any:
        """Replay the operators once; `stale` are the blocks that names hold from the step before,
        by value. Return those that names hold at the end."""
        self.blocks, self.strided, self.stale = {}, set(), dict(stale)
        self.at, self.later = -1, {}
        for one in self.session.inputs:
            self.take(one, "input", 4)
        moments: dict[Any, Any] = {}
        dying: dict[Any, Any] = {}
        for place, what, thing, more in self.session.happened:
            moments.setdefault(place, []).append((what, thing, more))
        for key, place in last.items():
            dying.setdefault(place, []).append(key)
        self.tidy(self.session.inputs, last)
        for place, op in enumerate(self.ops):
            self.at = place
            for key in self.later.pop(place, ()):
                self.let_go(key)
            for moment in moments.get(place, ()):
                self.moment(*moment)
            self.operate(op, last.get, place)
            self.accumulate(op)
            for key in dying.get(place, ()):
                self.drop(key)
            self.tidy(op.results(), last)
        for moment in moments.get(len(self.ops), ()):
            self.moment(*moment)
        if self.session.gradients and not any(one[1] == "step" for one in self.session.happened):
            # Gradients are accumulated over batches; the step comes later.
            for optimizer in self.session.optimizers:
                self.optimize(optimizer)
        for index in set(self.stale.values()):
            self.dead(index)
        return {key: block.index for key, block in self.blocks.items()}

    def overwritten(self, key: Any) -> None:
        """A value is there anew. Its name still holds the one of the step before until the call
        of the network that made it returns."""
        if key not in self.stale:
            return
        end = next((end for start, end in self.session.calls if start <= self.at < end), None)
        if end is None:
            self.let_go(key)
        else:
            self.later.setdefault(end, []).append(key)

    def let_go(self, key: Any) -> None:
        """A name lets go of what it held from the step before."""
        index = self.stale.pop(key, None)
        if index is not None and index not in self.stale.values():
            self.dead(index)

    def take(self, value: Any, name: Any, kind: Any = 0) -> None:
        """A value gets a block of its own."""
        block = Block(self.born(nbytes(value), name, kind))
        block.uses = 1
        self.blocks[key_of(value)] = block
        self.overwritten(key_of(value))

    def drop(self, key: Any) -> None:
        """A value is needed no more."""
        block = self.blocks.pop(key, None)
        if block is not None:
            block.uses -= 1
            if not block.uses:
                self.dead(block.index)

    def tidy(self, values: Any, last: Any) -> None:
        """Values that nobody needs die at once."""
        for value in values:
            if key_of(value) in self.blocks and key_of(value) not in last:
                self.drop(key_of(value))

    def operate(self, op: Any, last: Any, place: Any) -> None:
        """Run one operator."""
        name = op.name().split(".", 1)[-1]
        if name in NOTHING:
            return
        if name in ("rnn", "warpctc", "warprnnt"):
            raise Unsupported(f"what the kernel of {name} keeps is not written in a program")
        operands = _all_operands(op)
        inplace = name.endswith("_") and name != "batch_norm_"
        name = name.rstrip("_")
        # The gradient of a view is a view of the gradient that arrives, the last operand.
        source = operands[-1 if name.endswith("_grad") else 0] if operands else None
        key = key_of(source) if source is not None else 0
        shared = self.blocks.get(key)
        bent = key in self.strided
        results = [one for one in op.results() if one.initialized() and one.is_dense_tensor_type()]
        if (
            name in VIEWS
            and shared is not None
            and not (bent and name.startswith(("resh", "flat")))
        ):
            for value in results:
                self.alias(value, shared)
                if bent or (name in STRIDED and not _plain(name, source, value)):
                    self.strided.add(key_of(value))
            return
        rule = self.rules.get(name[:-5] if name.endswith("_grad") else name, {})
        # A view of a bent one is its copy; any other kernel copies it for a moment.
        read = [] if name in VIEWS else [one for one in operands if key_of(one) in self.strided]
        copies = [self.born(nbytes(one), name) for one in read]
        target = shared if inplace else self.taken_over(op, name, rule, operands, last, place)
        self.widest = max(self.widest, convolved(name, operands))
        if name == "batch_norm":
            del results[1:3]
        for value in results:
            if target is not None and nbytes(value) == self.sizes[target.index]:
                self.alias(value, target)
                target = None
            else:
                self.take(value, name)
        self.within(kernel_needs(op, name, operands, rule), name)
        self.inside += copies
        for one in copies:
            self.dead(one)

    def taken_over(
        self, op: Any, name: Any, rule: Any, operands: Any, last: Any, place: Any
    ) -> Any:
        """Return the block in which a gradient kernel writes its result, where it may."""
        if not name.endswith("_grad") or not operands:
            return None
        if rule.get("grad") == "inplace":
            value = operands[-1]
        elif rule.get("grad") == "saved":
            value = next(
                (
                    one
                    for one in operands
                    if len(one.shape)
                    and one is not operands[0]
                    and nbytes(one) == nbytes(op.results()[0])
                ),
                None,
            )
        else:
            return None
        block = self.blocks.get(key_of(value)) if value is not None else None
        dies = value is not None and (last(key_of(value), -1) in (place, -1))
        return block if block is not None and block.uses == 1 and dies else None

    def hold(self, value: Any, size: Any, name: Any) -> None:
        """An output whose size shape inference leaves open gets its block."""
        block = Block(self.born(size, name))
        block.uses = 1
        self.blocks[key_of(value)] = block

    def alias(self, value: Any, block: Any) -> None:
        """A value lies in another's memory."""
        if block is not None:
            block.uses += 1
            self.blocks[key_of(value)] = block
            self.overwritten(key_of(value))

    def accumulate(self, op: Any) -> None:
        """A parameter's new gradient becomes the kept one, or is added into it."""
        for value in op.results():
            parameter = self.session.gradients.get(key_of(value))
            block = self.blocks.get(key_of(value))
            if parameter is None or block is None:
                continue
            key = key_of(parameter)
            if key in self.kept:
                self.drop(key_of(value))
            else:
                self.kept[key] = block.index
                self.kinds[block.index] = 2
                del self.blocks[key_of(value)]

    def moment(self, what: Any, thing: Any, more: Any) -> None:
        """An optimizer steps or clears gradients."""
        if what == "step":
            self.optimize(thing)
        elif what == "clear" and more is False:
            for index in self.kept.values():
                self.dead(index)
            self.kept.clear()

    def optimize(self, optimizer: Any) -> None:
        """One optimizer step: states at the first, what clipping copies at each."""
        groups = getattr(optimizer, "_param_groups", None) or optimizer._parameter_list or []
        own: list[Any] = []
        for group in groups:
            own += group["params"] if isinstance(group, dict) else [group]
        own = [one for one in own if not one.stop_gradient]
        times = STATES.get(type(optimizer).__name__, 2)
        if getattr(optimizer, "_grad_clip", None) is not None:
            made = [self.born(nbytes(one), "clip", 0) for one in own]
        else:
            made = []
        if not getattr(optimizer, "_gpuconsole_stepped", False):
            optimizer._gpuconsole_stepped = True
            for one in own:
                for _ in range(times):
                    self.born(nbytes(one), "optimizer", 3)
        if type(optimizer).__name__ == "Lamb" and own:
            self.within([max(nbytes(one) for one in own)], "lamb")
        for one in made:
            self.dead(one)


def _all_operands(op: Any) -> Any:
    found = []
    for value in op.operands_source():
        if not value.initialized():
            continue
        define = value.get_defining_op()
        if define is not None and define.name() == "builtin.combine":
            found += [one for one in define.operands_source() if one.initialized()]
        elif value.is_dense_tensor_type():
            found.append(value)
    return found


def _operands(op: Any) -> Iterator[Any]:
    """Yield the operands whose memory an operator needs."""
    if op.name() == "builtin.combine":
        return
    for value in op.operands_source():
        if not value.initialized() or op.is_no_need_buffer(value):
            continue
        define = value.get_defining_op()
        if define is not None and define.name() == "builtin.combine":
            yield from (one for one in define.operands_source() if one.initialized())
        elif value.is_dense_tensor_type():
            yield value


def _plain(name: Any, whole: Any, part: Any) -> Any:
    """Tell whether a view is contiguous after all: a slice of the first axis, one axis moved."""
    if name == "slice":
        return list(whole.shape[1:]) == list(part.shape[-(len(whole.shape) - 1) :])
    return False
