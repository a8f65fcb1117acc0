"""The values of interpreted scripts beside plain Python constants.

Native objects answer to a script's attribute names only by the tables that the decorators of
`exposed` fill, so no name in a script can reach the interpreter's own insides.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal
from weakref import ref

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain import syntax

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

Value = Any
"""A constant, a list/tuple/dict/set of values, or one of the classes of this package."""


Form = Literal["value", "number", "test", "shape", "gap", "held"]
"""What an answer would be: any constant, a number, true or false, a shape with its type; there is
no answer to a gap, which is something that the analysis itself does not know, nor to what a call
with tensors holds beside its result."""


@dataclass(frozen=True, slots=True)
class Root:
    """What would settle an unknown: an expression as written, and the name it was given to."""

    text: str
    file: str
    line: int
    name: str = ""
    form: Form = "value"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that reading the script cannot tell, with the place and the reason."""

    file: str
    line: int
    reason: str
    root: Root | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SomeBytes(Unknown):
    """Unknown bytes, such as those of a file."""


@dataclass(frozen=True, slots=True)
class Reshaped(Unknown):
    """Unknown data in a known shape, as of `np.reshape(data, shape)`; their type is unknown."""

    shape: tuple[int, ...] = ()


class Blocks(list[object]):
    """Memory that lives as long as something that the script holds."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class Saved(Unknown):
    """What a saved file holds: as much as the network that takes it, once there is one."""

    memory: Blocks = field(default_factory=Blocks, compare=False)
    """What lives as long as it does."""
    whole: ref[Blocks] | None = field(default=None, compare=False)
    """The memory of the file that it is a part of."""

    def part(self, item: Unknown) -> Saved:
        """Return a part of it, `item` under a key: its memory is the file's."""
        whole = self.whole or ref(self.memory)
        return Saved(item.file, item.line, item.reason, item.root, whole=whole)

    def take(self, blocks: Iterable[object]) -> None:
        """Give it memory, unless it has some; what is part of a file that is gone has its own."""
        home = self.whole() if self.whole is not None else None
        home = self.memory if home is None else home
        if not home:
            home.extend(blocks)


@dataclass(frozen=True, slots=True)
class Unsized(Unknown):
    """A tensor of unknown size: what it takes is not known either, as long as it is there."""

    memory: Blocks = field(default_factory=Blocks, compare=False)
    """Lives as long as it does."""


def holds_memory(value: Value) -> bool:
    """Whether a value may hold memory: it is no number or text, nor an unknown of no memory."""
    if isinstance(value, Unknown):
        return isinstance(value, (Saved, Unsized))
    return not isinstance(value, (str, int, float, bytes, type(None)))


@dataclass(frozen=True, slots=True)
class SomeNumber(Unknown):
    """One unknown number: it scales a tensor without changing its shape."""


@dataclass(frozen=True, slots=True)
class Share(SomeNumber):
    """A number that is drawn from 0 up to 1, and is never 1."""


@dataclass(frozen=True, slots=True)
class SomeInt(SomeNumber):
    """An unknown whole number, such as the index of a sample."""


@dataclass(frozen=True, slots=True)
class OneOf(Unknown):
    """One of a few things that can be called, picked at random; None, if it is among them, is
    called by no script."""

    things: tuple[Value, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Symbol:
    """An unknown length; `high` where something bounds it, below 0 only if `signed`."""

    key: str
    high: int | None = None
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Length(SomeInt):
    """A whole number of which only its relation to unknown lengths is known."""

    const: int = 0
    terms: tuple[tuple[Symbol, int], ...] = ()

    @property
    def high(self) -> int | None:
        """The largest that it can be; None where nothing bounds it."""
        return _bound(self.const, self.terms)

    @property
    def low(self) -> int | None:
        """The smallest that it can be; None where nothing bounds it."""
        most = _bound(-self.const, tuple((symbol, -times) for symbol, times in self.terms))
        return None if most is None else -most


def _bound(const: int, terms: tuple[tuple[Symbol, int], ...]) -> int | None:
    for symbol, times in terms:
        if times > 0:
            if symbol.high is None:
                return None
            const += times * symbol.high
        elif symbol.signed:
            return None
    return const


@dataclass(frozen=True, slots=True, eq=False)
class More(Unknown):
    """Ends a container that holds an unknown number of items like those before it.

    All are one to a mapping or a set, so that asking whether there is one takes no search.
    """

    length: Value = None
    """The number of all items: a `Length`."""
    like: Value = None
    """An item, while the container is walked over."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, More)

    def __hash__(self) -> int:
        return 0x6D6F7265


def plain(unknown: Unknown) -> Unknown:
    """Return the unknown without its being a number or text: it may be anything."""
    if type(unknown) is not Unknown:
        return Unknown(unknown.file, unknown.line, unknown.reason, unknown.root)
    return unknown


def as_number(unknown: Unknown) -> Unknown:
    """Return the unknown as one of which an answer is a number, as its use shows."""
    root = unknown.root
    if root is None or root.form != "value":
        return unknown
    return replace(unknown, root=replace(root, form="number"))


class Scope:
    """Names of one module, function call or class body."""

    __slots__ = ("captured", "declared", "kind", "names", "parent", "wanted")

    def __init__(self, parent: Scope | None, kind: str = "function") -> None:
        self.names: dict[str, Value] = {}
        self.parent = parent
        self.kind = kind
        self.captured = False
        """Whether all of it outlives its call, as a generator's does."""
        self.wanted: set[str] = set()
        """Names that functions made here may read: these alone outlive the call."""
        self.declared: dict[str, Scope] = {}

    def module_name(self) -> Value:
        """Return the name of the module that it lies in, "" where it has none."""
        holder = self.find("__name__")
        return holder.names["__name__"] if holder is not None else ""

    def find(self, name: str) -> Scope | None:
        """Return the scope that holds `name`; class bodies are seen only by themselves."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or scope.kind != "class"):
                return scope
            scope = scope.parent
        return None

    @property
    def ends(self) -> bool:
        """Whether it, or one around it, is a call's, of which only what is read outlives it."""
        scope: Scope | None = self
        while scope is not None and scope.kind in ("class", "module"):
            scope = scope.parent
        return scope is not None

    def close_over(self, names: frozenset[str]) -> None:
        """Note what a function made here may read, here and in the calls around."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "module":
            scope.wanted |= names
            scope = scope.parent

    def end(self) -> None:
        """Drop the names at the end of a call; as in Python a closure holds only what it reads."""
        if not self.captured:
            protected = self.wanted | {"class?", "self?"} if self.wanted else self.wanted
            for name in [name for name in self.names if name not in protected]:
                del self.names[name]

    def module(self) -> Scope:
        """Return the module's scope."""
        return self if self.parent is None else self.parent.module()


class Memo:
    """What a function with `functools.lru_cache` returned, by its arguments."""

    __slots__ = ("most", "results")

    def __init__(self, most: int | None) -> None:
        """Remember as many results as `most` says, all of them where it is None."""
        self.most = most
        self.results: dict[Value, tuple[Value, Value]] = {}
        """Arguments, which stay alive, and result, by a key made of the arguments."""

    def keep(self, key: Value, arguments: Value, result: Value) -> None:
        """Remember a result; the oldest one goes where there are too many."""
        self.results[key] = (arguments, result)
        if self.most is not None and len(self.results) > self.most:
            del self.results[next(iter(self.results))]


class Function:
    """A `def` or `lambda` with the scope that it closes over; `memo` if it remembers results."""

    __slots__ = ("_generator", "args", "body", "decorators", "defaults", "file", "kind",
                 "kw_defaults", "memo", "name", "owner", "scope")  # fmt: skip

    def __init__(self, name: str, args: ast.arguments, body: list[ast.stmt], scope: Scope) -> None:
        self.name = name
        self.args = args
        self.body = body
        self.scope = scope
        self.file = ""
        self.defaults: list[Value] = []
        self.kw_defaults: list[Value] = []
        self._generator: bool | None = None
        self.decorators: tuple[str, ...] = ()
        self.kind = "function"
        self.memo: Memo | None = None
        self.owner: UserClass | None = None

    @property
    def generator(self) -> bool:
        """Whether calling it makes a generator; its body is looked through when it is called."""
        if self._generator is None:
            self._generator = syntax.yields(self.body)
        return self._generator


class UserClass:
    """A class of the script; `native` is the library class at the root of its bases, if any.

    `meta` is the metaclass of the script's own that makes it, if there is one; `doc` and `module`
    are its `__doc__` and `__module__`.
    """

    __slots__ = ("attrs", "bases", "doc", "line", "meta", "module", "name", "native")

    def __init__(self, name: str, bases: tuple[Value, ...], line: int) -> None:
        self.name = name
        self.bases = bases
        self.line = line
        self.attrs: dict[str, Value] = {}
        self.doc: Value = ""
        self.module: Value = ""
        self.native: type[Native] | None = None
        self.meta: UserClass | None = None
        for base in bases:
            if isinstance(base, UserClass):
                self.native = self.native or base.native
                self.meta = self.meta or base.meta
            elif isinstance(base, NativeClass):
                self.native = self.native or base.type

    def mro(self) -> list[UserClass]:
        """Return the script's classes in look-up order (depth first, each once, last kept)."""
        order: dict[UserClass, None] = {}
        self._last_first(order)
        return list(reversed(order))

    def _last_first(self, order: dict[UserClass, None]) -> None:
        for base in reversed(self.bases):
            if isinstance(base, UserClass) and base not in order:
                base._last_first(order)
        order[self] = None

    def find(self, name: str) -> Value:
        """Return the class attribute `name` or `MISSING`."""
        for cls in self.mro():
            if name in cls.attrs:
                return cls.attrs[name]
        return MISSING


OPEN = 2**40
"""An extent from here on means an unbounded one."""


class Bound(int):
    """An extent that is the largest of those that can occur; `OPEN` and more where none is."""

    length: Length | None = None
    """What is known of it, where it was made from a length."""

    @classmethod
    def of(cls, length: Length) -> Bound:
        """Return the largest that a length can be."""
        bound = cls(OPEN**2 if length.high is None else length.high)
        bound.length = length
        return bound


class Missing:
    """No such name."""


MISSING = Missing()


class Native:
    """An object of a library, as far as the interpreter models it.

    A user class may derive from it: then `cls` is that class and `attrs` what the script set.
    """

    label = "object"
    is_its_fields = False
    """Whether its attributes are all there is to it, so that two can be joined by them."""
    hashed_as_itself = False
    """Whether it is the key of a dictionary by what it is, though it is compared element by
    element."""
    also: tuple[type[Native], ...] = ()
    """Classes of which it is an instance to a script, though it is none of ours."""

    def __init__(self) -> None:
        self.cls: UserClass | None = None
        self.attrs: dict[str, Value] = {}

    def init(self, run: Run, /, *args: Value, **kwargs: Value) -> None:
        """Stand for the library's `__init__`."""

    @staticmethod
    def derived(cls: UserClass, scope: Scope) -> None:
        """A class of the script was made that derives from it, in a scope."""


class Plain(Native):
    """An instance of a user class with no library base."""

    label = "instance"
    is_its_fields = True


@dataclass(frozen=True, slots=True)
class NativeClass:
    """A class of a library."""

    type: type[Native]
    name: str
    make: Callable[..., Value] | None = field(default=None, compare=False)
    """What a call of it does, where that is not to begin an empty object: `make(run, ...)`."""


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A function of a library: `call(run, *args, **kwargs)`."""

    call: Callable[..., Value]
    name: str


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A user function taken from an instance."""

    function: Function
    instance: Value


@dataclass(frozen=True, slots=True)
class SuperOf:
    """What `super()` returns: the next classes after `owner` in the instance's order."""

    instance: Native
    owner: UserClass


class Namespace:
    """A library module. Names that it does not list are unknown, not errors."""

    __slots__ = ("name", "names", "quiet")

    def __init__(self, name: str, names: dict[str, Value] | None = None, *, quiet: bool = False):
        self.name = name
        self.names = names if names is not None else {}
        self.quiet = quiet

    def find(self, name: str) -> Value:
        """Return the value of the name, or `MISSING`."""
        return self.names.get(name, MISSING)


class UserModule:
    """A module of the script's own project."""

    __slots__ = ("name", "scope")

    def __init__(self, name: str, scope: Scope) -> None:
        self.name = name
        self.scope = scope


ARGUMENT = "argument:"
"""Prefix of the keys of numbers that come from an option of the script's own."""


class Sourced(int):
    """An int that remembers where it was written, so that the batch size can be replaced there."""

    file: str
    line: int
    kind: str
    key: str

    @classmethod
    def at(cls, number: int, file: str, line: int, kind: str, key: str) -> Sourced:
        """Make an int with its place. `kind`: constant, argument, default."""
        sourced = cls(number)
        sourced.file, sourced.line, sourced.kind, sourced.key = file, line, kind, key
        return sourced

    @property
    def is_setting(self) -> bool:
        """Whether it has a name of its own: an option, or a number in a file of settings."""
        return is_setting(self.key)


def is_setting(key: str) -> bool:
    """Tell whether a number is an option (`argument:NAME`), or written in a file of settings, and
    not in the text of a script (`FILE:LINE:COLUMN`)."""
    file = key.rsplit(":", 2)[0]
    return key.startswith(ARGUMENT) or not file.endswith((".py", ".ipynb"))


class Wrapped:
    """A user function run inside a context, as `@paddle.no_grad()` makes it."""

    __slots__ = ("context", "function")

    def __init__(self, function: Value, context: Native) -> None:
        self.function = function
        self.context = context


class UserRaise(Exception):  # noqa: N818 - the script's exception, not ours
    """The script raises."""


class Stop(Exception):  # noqa: N818 - a control signal, not an error
    """The script has shown all that the analysis needs, or calls exit."""


class Exit(Stop):
    """The script calls exit: on one side of a condition that is not known the other goes on."""


class Blocked(Exception):  # noqa: N818 - a control signal, not an error
    """The memory of the script is unknown; carries why."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.reason)
        self.unknown = unknown


class TooMuch(Blocked):
    """Following the script is given up for its length: what comes after that is not known."""


class ShapeFault(Exception):  # noqa: N818 - the script's fault, not ours
    """Shapes that cannot go together, raised by an operator."""

    def __init__(self, message: str, *shapes: tuple[int, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.shapes = shapes


def first_unknown(*values: Value) -> Unknown | None:
    """Return the first unknown among the values, looking into containers a few levels deep."""
    pending = [(value, 0) for value in values]
    for value, depth in pending:
        if isinstance(value, Unknown):
            return value
        if depth < 4 and isinstance(value, (list, tuple)) and len(pending) < 4096:
            pending.extend((item, depth + 1) for item in value[:64])
        elif depth < 4 and isinstance(value, dict) and len(pending) < 4096:
            pending.extend((item, depth + 1) for item in list(value.values())[:64])
    return None
