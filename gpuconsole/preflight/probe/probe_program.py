"""A program's operators, replayed as the dynamic graph would run them: births and deaths."""

ITEM = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "bool": 1, "uint8": 1, "int8": 1,
        "float16": 2, "bfloat16": 2, "int16": 2, "complex64": 8, "complex128": 16}  # fmt: skip
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
RESERVED = {"LSTM": 7, "GRU": 5, "RNN_TANH": 2, "RNN_RELU": 2}


def nbytes(value):
    """Return a value's bytes; an extent nobody knows is nothing on the CPU."""
    count = 1
    for extent in value.shape:
        count *= max(0, extent)
    return count * ITEM.get(str(value.dtype).rsplit(".", 1)[-1].lower(), 4)


class Block:
    """A piece of memory with the values that lie in it."""

    __slots__ = ("index", "uses")

    def __init__(self, index):
        self.index = index
        self.uses = 0


class Replay:
    """Two steps of a program: what the second needs beyond the first is the steady state."""

    def __init__(self, session):
        self.session = session
        self.program = session.program
        self.events = []
        self.sizes = []
        self.names = []
        self.kinds = []
        self.inside = []
        self.cycles = []
        self.blocks = {}
        self.strided = set()
        self.kept = {}
        self.widest = 0
        self.ops = list(self.program.global_block().ops)
        self.keys = {}

    def born(self, size, name, kind=0):
        """Take a block."""
        index = len(self.sizes)
        self.sizes.append(int(size))
        self.names.append(name)
        self.kinds.append(kind)
        self.events.append(index)
        return index

    def dead(self, index):
        """Give a block back."""
        self.events.append(~index)

    def within(self, sizes, name):
        """Take and give back what a kernel needs while it runs."""
        made = [self.born(size, name) for size in sizes if size]
        self.inside += made
        for one in made:
            self.dead(one)

    def key(self, value):
        """Return a name of a value that is equal for equal values."""
        return value.id if hasattr(value, "id") else hash(value)

    def run(self):
        """Replay two steps and return the recording."""
        self.persistent()
        self.waiting()
        last = self.last_uses()
        old = []
        for cycle in range(2):
            old = self.step(last, old)
            self.cycles.append(len(self.events))
        words = sorted(set(self.names))
        number = {word: place for place, word in enumerate(words)}
        return {
            "events": self.events, "cycles": self.cycles, "sizes": self.sizes, "names": words,
            "name": [number[one] for one in self.names], "kind": self.kinds,
            "inside": self.inside, "widest_conv": self.widest,
        }

    def persistent(self):
        """Parameters and buffers of all layers."""
        seen = set()
        for layer in list(self.session.layers):
            for one in list(layer._parameters.values()) + list(layer._buffers.values()):
                if one is not None and id(one) not in seen:
                    seen.add(id(one))
                    self.born(nbytes(one), "parameter", 1)

    def waiting(self):
        """A batch of each reader, as a block that stands for those held ready."""
        for key in sorted(self.session.waiting):
            self.born(sum(nbytes(one) for one in self.session.waiting[key]), "reader", 5)

    def last_uses(self):
        """Return for each value the place of the last operator that needs its memory."""
        last = {}
        for place, op in enumerate(self.ops):
            for value in _operands(op):
                last[self.key(value)] = place
        for start, values in self.session.held:
            end = len(self.ops)
            for value in values:
                last[self.key(value)] = max(end, last.get(self.key(value), 0))
        for end, pairs in self.session.gradients.items():
            for _, value in pairs:
                last[self.key(value)] = max(end - 1, last.get(self.key(value), 0))
        return last

    def step(self, last, old):
        """Replay the operators once; return the blocks that names still hold at the end."""
        self.blocks, self.strided = {}, set()
        for one in self.session.inputs:
            self.take(one, "input", 4)
        moments = {}
        for place, what, thing, more in self.session.happened:
            moments.setdefault(place, []).append((what, thing, more))
        stale = list(old)
        dying = {}
        for key, place in last.items():
            dying.setdefault(place, []).append(key)
        for place, op in enumerate(self.ops):
            for moment in moments.get(place, ()):
                self.moment(*moment)
            if place in self.session.gradients:
                self.accumulate(self.session.gradients[place])
            self.operate(op, stale)
            for key in dying.get(place, ()):
                self.drop(key)
            self.unused(op, last)
        for moment in moments.get(len(self.ops), ()):
            if moment[0] != "backward":
                self.pending(len(self.ops))
                self.moment(*moment)
        self.pending(len(self.ops))
        for index in stale:
            self.dead(index)
        held = {block.index for block in self.blocks.values() if block is not None}
        return sorted(held)

    def pending(self, place):
        """Add up the gradients of a backward pass that ends the program."""
        if place in self.session.gradients:
            self.accumulate(self.session.gradients[place])

    def take(self, value, name, kind=0):
        """A value gets a block of its own."""
        block = Block(self.born(nbytes(value), name, kind))
        block.uses = 1
        self.blocks[self.key(value)] = block

    def drop(self, key):
        """A value is needed no more."""
        block = self.blocks.pop(key, None)
        if block is not None:
            block.uses -= 1
            if not block.uses:
                self.dead(block.index)

    def unused(self, op, last):
        """Outputs that nobody needs die at once."""
        for value in op.results():
            key = self.key(value)
            if key in self.blocks and key not in last:
                self.drop(key)

    def operate(self, op, stale):
        """Run one operator."""
        name = op.name().split(".", 1)[-1]
        if name in NOTHING:
            return
        operands = _all_operands(op)
        inplace = name.endswith("_") and not name.endswith("__")
        name = name.rstrip("_")
        shared = self.blocks.get(self.key(operands[0])) if operands else None
        key = self.key(operands[0]) if operands else None
        if name in VIEWS and not (name.startswith("reshape") and key in self.strided):
            for value in op.results():
                self.alias(value, shared)
                if name in STRIDED and not _plain(name, operands[0], value):
                    self.strided.add(self.key(value))
                elif key in self.strided:
                    self.strided.add(self.key(value))
            return
        copies = [self.born(nbytes(one), name) for one in operands if self.key(one) in self.strided]
        extra = kernel_needs(op, name, operands)
        self.widest = max(self.widest, _convolved(name, operands))
        first = True
        for value in op.results():
            if inplace and first and shared is not None:
                self.alias(value, shared)
            elif value.initialized() and not (inplace and first):
                self.take_result(op, name, value)
            first = False
        self.within(extra, name)
        self.inside += copies
        for one in copies:
            self.dead(one)

    def take_result(self, op, name, value):
        """An output gets its block; what shape inference leaves open has a formula."""
        if name == "rnn" and -1 in list(value.shape):
            block = Block(self.born(_reserve(op), name))
            block.uses = 1
            self.blocks[self.key(value)] = block
        elif value.type() is not None and hasattr(value, "shape"):
            self.take(value, name)

    def alias(self, value, block):
        """A value lies in another's memory."""
        if block is not None:
            block.uses += 1
            self.blocks[self.key(value)] = block

    def accumulate(self, pairs):
        """New gradients become the kept ones, or are added into them."""
        for parameter, gradient in pairs:
            key = self.key(parameter)
            block = self.blocks.get(self.key(gradient))
            if key in self.kept or block is None:
                self.drop(self.key(gradient))
                continue
            self.kept[key] = block.index
            self.kinds[block.index] = 2
            self.blocks.pop(self.key(gradient), None)

    def moment(self, what, thing, more):
        """An optimizer steps or clears gradients."""
        if what == "step":
            self.optimize(thing)
        elif what == "clear" and more is False:
            for index in self.kept.values():
                self.dead(index)
            self.kept.clear()

    def optimize(self, optimizer):
        """One optimizer step: states at the first, what clipping copies at each."""
        groups = getattr(optimizer, "_param_groups", None) or optimizer._parameter_list or []
        own = []
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


def _all_operands(op):
    found = []
    for value in op.operands_source():
        if not value.initialized():
            continue
        define = value.get_defining_op()
        if define is not None and define.name() == "builtin.combine":
            found += [one for one in define.operands_source() if one.initialized()]
        else:
            found.append(value)
    return found


def _operands(op):
    """Yield the operands whose memory an operator needs."""
    if op.name() == "builtin.combine":
        return
    for value in op.operands_source():
        if not value.initialized():
            continue
        define = value.get_defining_op()
        if define is not None and define.name() == "builtin.combine":
            yield from (one for one in define.operands_source() if one.initialized())
        elif not op.is_no_need_buffer(value):
            yield value


def _plain(name, whole, part):
    """Tell whether a view is contiguous after all: a slice of the first axis, one axis moved."""
    if name == "slice":
        return list(whole.shape[1:]) == list(part.shape[-(len(whole.shape) - 1):])
    return False


def _convolved(name, operands):
    if "conv" in name and operands and not name.endswith("_grad"):
        return nbytes(operands[0])
    return 0


def kernel_needs(op, name, operands):
    """Return what a CPU kernel takes while it runs: the buffer that a convolution unfolds into."""
    plain = name[:-5] if name.endswith("_grad") else name
    if plain not in ("conv2d", "depthwise_conv2d", "conv3d") or len(operands) < 2:
        return []
    weight = operands[1]
    out = operands[-1] if name.endswith("_grad") else op.results()[0]
    unfold = 4
    for extent in list(weight.shape)[1:] + list(out.shape)[2:]:
        unfold *= max(1, extent)
    one_by_one = all(extent == 1 for extent in list(weight.shape)[2:])
    same = list(operands[0].shape)[2:] == list(out.shape)[2:]
    return [] if one_by_one and same else [unfold]


def _reserve(op):
    """Return what a recurrent layer keeps for backward: gates, states and outputs of each step."""
    attributes = op.attrs()
    x = op.operands_source()[0]
    steps, batch = list(x.shape)[:2]
    directions = 2 if attributes.get("is_bidirec") else 1
    gates = RESERVED.get(attributes.get("mode"), 7)
    layers = attributes.get("num_layers", 1)
    hidden = attributes.get("hidden_size", 0)
    return (gates * layers - 1) * directions * steps * batch * hidden * 4
