"""Mutated and hostile scripts: none may crash preflight, hang it, or make it touch anything else.

    python -m benchmarks.mutations [--count 500] [--seed 7] [--keep FOLDER] [--json]

The hand-made hostile projects come first, the rest are mutations of the examples and of our own
measured scripts: of their text and of their syntax tree, one to three at a time.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.preflight import hostile
from benchmarks.preflight.sets import load

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "gpuconsole" / "data" / "examples"
MEMORY_LIMIT = 3 * 2**30
SEED = 7
COUNT = 500
Change = Callable[[random.Random, ast.Module], None]
ODD_VALUES = (0, -1, 1, 2**31, 10**18, 1e308, float("nan"), None, True, "", "x", b"y", (), 3.5, ...)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one script."""

    name: str
    seconds: float
    outcome: str
    broken: tuple[str, ...]

    @property
    def bad(self) -> bool:
        """Whether it crashed, hung or reached out."""
        return bool(self.broken) or self.outcome.startswith(("CRASH", "HANG", "DIED"))


def places(tree: ast.AST, kind: type[ast.AST]) -> list[tuple[ast.AST, str, int | None]]:
    """Return where nodes of a kind hang in a tree: parent, field, index in the field."""
    found: list[tuple[ast.AST, str, int | None]] = []
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, list):
                found += [(parent, name, i) for i, one in enumerate(value) if isinstance(one, kind)]
            elif isinstance(value, kind):
                found.append((parent, name, None))
    return found


def get(place: tuple[ast.AST, str, int | None]) -> ast.AST:
    """Return the node at a place."""
    parent, name, index = place
    value = getattr(parent, name)
    node: ast.AST = value if index is None else value[index]
    return node


def put(place: tuple[ast.AST, str, int | None], node: ast.AST) -> None:
    """Set the node at a place."""
    parent, name, index = place
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node


def change_constant(drawn: random.Random, tree: ast.Module) -> None:
    """Put an odd value where a number or a word was."""
    put(drawn.choice(places(tree, ast.Constant)), ast.Constant(drawn.choice(ODD_VALUES)))


def swap_expressions(drawn: random.Random, tree: ast.Module) -> None:
    """Put a copy of one expression where another was."""
    found = [p for p in places(tree, ast.expr) if not isinstance(get(p), ast.Starred)]
    put(drawn.choice(found), copy.deepcopy(get(drawn.choice(found))))


def wrap_expression(drawn: random.Random, tree: ast.Module) -> None:
    """Wrap an expression in something unexpected."""
    place = drawn.choice(places(tree, ast.expr))
    inner = ast.unparse(get(place))
    forms = ("(lambda: {})", "[{}]", "({})()", "not ({})", "({}).x", "({})[0]", "-({})",
             "{{1: {}}}", "[{} for _ in range(10 ** 9)]", "({} if x else None)", "str({})",
             "({} for i in y)", "sum({})", "({}) @ ({})", "({}, {})", "f'{{{}}}'")  # fmt: skip
    form = drawn.choice(forms)
    text = form.format(*[inner] * form.replace("{{", "").count("{}"))
    put(place, ast.parse(text, mode="eval").body)


def drop_statement(drawn: random.Random, tree: ast.Module) -> None:
    """Take a statement away."""
    put(drawn.choice(places(tree, ast.stmt)), ast.Pass())


def repeat_statement(drawn: random.Random, tree: ast.Module) -> None:
    """Put a statement once more, inside a loop, a function, a try or a class."""
    place = drawn.choice(places(tree, ast.stmt))
    shell = drawn.choice(("while True: pass", "for _ in range(10 ** 12): pass", "def f(): pass",
                          "try: pass\nfinally: pass", "class A: pass", "with open('x') as f: pass",
                          "if unknown: pass"))  # fmt: skip
    made = ast.parse(shell).body[0]
    made.body = [copy.deepcopy(get(place))] * 2  # type: ignore[attr-defined]
    put(place, made)


def move_statement(drawn: random.Random, tree: ast.Module) -> None:
    """Change two statements for each other."""
    found = places(tree, ast.stmt)
    one, two = drawn.choice(found), drawn.choice(found)
    first, second = copy.deepcopy(get(one)), copy.deepcopy(get(two))
    put(one, second)
    put(two, first)


def change_call(drawn: random.Random, tree: ast.Module) -> None:
    """Drop, double, turn round or star the arguments of a call."""
    call = get(drawn.choice(places(tree, ast.Call)))
    assert isinstance(call, ast.Call)
    kind = drawn.randrange(5)
    if kind == 0:
        call.args = call.args[:-1]
    elif kind == 1:
        call.keywords = call.keywords[:-1]
    elif kind == 2:
        call.args = call.args[::-1]
    elif kind == 3:
        call.args = call.args * 2
    else:
        call.args = [*call.args, ast.Starred(ast.Name("x", ast.Load()), ast.Load())]


def rename(drawn: random.Random, tree: ast.Module) -> None:
    """Let one name mean another."""
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    drawn.choice(names).id = drawn.choice(names).id
    attributes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    if attributes and drawn.random() < 0.5:
        drawn.choice(attributes).attr = drawn.choice(attributes).attr


def change_class(drawn: random.Random, tree: ast.Module) -> None:
    """Give a class or a function other bases, decorators or defaults."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef)]
    if not found:
        return
    one = drawn.choice(found)
    name = ast.Name(drawn.choice(found).name, ast.Load())
    if isinstance(one, ast.ClassDef) and drawn.random() < 0.7:
        one.bases = drawn.choice(([], [name], [name, name], [ast.Constant(3)]))
    else:
        one.decorator_list = [name, *one.decorator_list]


TREE_CHANGES: tuple[Change, ...] = (
    change_constant, change_constant, swap_expressions, swap_expressions, wrap_expression,
    drop_statement, repeat_statement, move_statement, change_call, change_call, rename,
    change_class,
)  # fmt: skip


def mutate_text(drawn: random.Random, text: str) -> str:
    """Damage the text as an editor, a bad merge or a broken transfer would."""
    lines = text.splitlines(keepends=True)
    at = drawn.randrange(len(lines))
    kind = drawn.randrange(8)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[drawn.randrange(len(lines))])
    elif kind == 2:
        lines[at] = " " * drawn.randrange(9) + lines[at].lstrip(" ")
    elif kind == 3:
        lines = lines[:at]
    elif kind == 4:
        lines[at] = lines[at].replace("(", "", 1)
    elif kind == 5:
        lines.insert(
            at, drawn.choice(("<<<<<<< HEAD\n", "\x00\n", "\ufeff\n", "\x0c\n", "é = 1\n"))
        )
    elif kind == 6:
        where = drawn.randrange(len(lines[at]))
        lines[at] = lines[at][:where] + drawn.choice("()[]{}:=,.'\"\\#@\t0") + lines[at][where:]
    else:
        lines[at] = lines[at].replace("\n", "\r").replace("self", "slef", 1)
    return "".join(lines)


def mutate(drawn: random.Random, text: str) -> str:
    """Return a text with one to three mutations."""
    if drawn.random() < 0.25:
        return mutate_text(drawn, text)
    tree = ast.parse(text)
    try:
        for _ in range(drawn.randint(1, 3)):
            drawn.choice(TREE_CHANGES)(drawn, tree)
        return ast.unparse(ast.fix_missing_locations(tree))
    except (IndexError, ValueError, TypeError, AttributeError, SyntaxError, RecursionError):
        # A file without such a place, or a tree that has no text any more.
        return mutate_text(drawn, text)


def originals() -> list[Path]:
    """Return the scripts that are mutated."""
    return [*sorted(EXAMPLES.glob("*.py")), *(script.path for script in load("dev"))]


def make_hostile(folder: Path) -> Iterator[Path]:
    """Write the hand-made projects."""
    for name, files in hostile.projects().items():
        for relative, text in files.items():
            path = folder / name / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for link, target in hostile.LINKS.get(name, {}).items():
            (folder / name / link).symlink_to(target)
        yield folder / name / "train.py"


def make_mutants(
    folder: Path, seed: int, count: int, sources: Sequence[Path] = ()
) -> Iterator[Path]:
    """Write `count` mutants, each in a folder of its own with the rest of its project."""
    drawn = random.Random(seed)
    sources = sources or originals()
    for number in range(count):
        source = sources[number % len(sources)]
        target = folder / f"{number:04}_{source.parent.name}_{source.stem}"
        alone = source.parent in (EXAMPLES, HERE / "scripts" / "dev")
        if alone:
            target.mkdir(parents=True)
            shutil.copy(source, target)
        else:
            shutil.copytree(source.parent, target, ignore=shutil.ignore_patterns("__pycache__"))
        victim = drawn.choice(sorted(target.rglob("*.py")))
        victim.write_text(mutate(drawn, victim.read_text("utf-8") or "x = 1\n"), "utf-8",
                          errors="surrogatepass")  # fmt: skip
        yield target / source.name


def limit_memory() -> None:
    """Let a script that fills memory fail instead of the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def judge(scripts: Sequence[Path]) -> list[Result]:
    """Read every script in watched processes; a new one begins after a hang or a death."""
    results: list[Result] = []
    left = list(scripts)
    while left:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.preflight.watched"], cwd=HERE.parent,
            input="".join(f"{path}\n" for path in left), capture_output=True, text=True,
            preexec_fn=limit_memory, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for one in lines:
            if "outcome" in one:
                name = Path(one["path"]).parent.name
                results.append(Result(name, one["seconds"], one["outcome"], tuple(one["broken"])))
        finished = sum("outcome" in one for one in lines)
        if finished == len(left):
            break
        if len(lines) == finished:
            raise SystemExit(f"The watching process could not begin: {done.stderr[-600:]}")
        stack = [s.strip() for s in done.stderr.splitlines() if "gpuconsole" in s][:3]
        late = done.returncode == -signal.SIGPROF or "Timeout" in done.stderr
        word = "HANG" if late else "DIED"
        results.append(Result(left[finished].parent.name, 0.0, f"{word} {' < '.join(stack)}", ()))
        left = left[finished + 1 :]
    return results


def make(folder: Path, seed: int = SEED, count: int = COUNT) -> list[Path]:
    """Write the hostile projects and enough mutants for `count` in all."""
    made = list(make_hostile(folder / "hostile"))
    return made + list(make_mutants(folder / "mutants", seed, max(0, count - len(made))))


def main() -> None:
    """Make the scripts, read them all, and print what went wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--keep", type=Path, help="folder for the scripts; else a temporary one")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        results = judge(make(folder, args.seed, args.count))
    bad = [one for one in results if one.bad]
    times = sorted(one.seconds for one in results)
    outcomes = Counter(one.outcome.split()[0] for one in results)
    if args.json:
        print(json.dumps({"scripts": len(results), "bad": len(bad), "outcomes": outcomes}))
    else:
        for one in sorted(bad, key=lambda result: result.outcome):
            print(f"  {one.name:40} {one.outcome} {'; '.join(one.broken)}")
        print(
            f"{len(results)} scripts: {len(bad)} bad; {dict(outcomes.most_common())}; "
            f"median {1000 * statistics.median(times):.0f} ms, slowest {times[-1]:.2f} s"
        )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
