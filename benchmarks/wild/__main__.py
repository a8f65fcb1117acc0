"""Run a tier of preflight over training code that people wrote for use.

    python -m benchmarks.wild --lay-out FOLDER [--mirrors FOLDER] [--batch NAME] [--with-truth]
    python -m benchmarks.wild --corpus FOLDER --batch third-party-1
                              [--tier static|meta|traced|ladder] [--only ID,ID] [--own-batch]
                              [--record | --latest] [--product CHECKOUT] [--before] [--with-truth]
                              [--python PYTHON --libraries TEXT] [--without-data]
    python -m benchmarks.wild --corpus FOLDER --batch third-party-1 --tier static --times
                              --product CHECKOUT    how long the first run's questions take alone
    python -m benchmarks.wild --page                write the tables of docs/accuracy*.md
    python -m benchmarks.wild --goals NAME,NAME     hold first runs against the goals

The corpus is a manifest of public repositories; nothing of them is in this repository. A script is
run as its README says, from its own working folder, with no help: no assumptions, no batch size but
where truth was measured at it (`--own-batch`: at none). `ladder` is what a user gets who names no
tier and agrees to measure on this machine: the record says which tier answered. Its user has data:
where the manifest has recipes for it, small files in the same layout are laid beside the script
(`--without-data`: not). `--record` keeps the run as the first of its batch and tier; it is refused
where there is one. `--latest` keeps it as the latest, beside the first. A batch that is held out is
run only with `--record` until it has its first run. `--with-truth` asks only about the scripts for
which a peak was measured; a run that is kept says so, and its figures are of these alone. `--times`
asks the same version again, at each script's own batch size, on a machine that does nothing else:
only the time is kept, beside that of the first run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.wild import beside, goals, judging, layout, manifest, page, records, running
from benchmarks.wild.judging import Result
from benchmarks.wild.manifest import Entry

HERE = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Lay the corpus out, or run a batch of it, or write the page."""
    assert __doc__
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lay-out", type=Path, metavar="FOLDER")
    parser.add_argument("--mirrors", type=Path, help="clones as OWNER+NAME/repo, else from GitHub")
    parser.add_argument("--corpus", type=Path, help="a folder where the corpus is laid out")
    parser.add_argument("--batch", default="")
    parser.add_argument("--tier", choices=running.TIERS, default="static")
    parser.add_argument("--only", default="", metavar="ID,ID")
    parser.add_argument("--own-batch", action="store_true", help="ask at no measured batch size")
    parser.add_argument("--product", type=Path, default=HERE, help="the checkout that is asked")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs it")
    parser.add_argument("--libraries", default="Paddle only", help="what it has, for the record")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--latest", action="store_true")
    parser.add_argument("--before", action="store_true", help="record it as the state before")
    parser.add_argument("--without-data", action="store_true", help="as the clone is")
    parser.add_argument("--with-truth", action="store_true", help="scripts with a measured peak")
    parser.add_argument("--times", action="store_true", help="only measure the time again")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--goals", default="", metavar="BATCH,BATCH")
    options = parser.parse_args(argv)
    if options.goals:
        print(goals.table(options.goals.split(",")), end="")
        return 0
    if options.page:
        page.write()
        return 0
    corpus = manifest.load()
    if options.lay_out:
        entries = corpus.of(options.batch) if options.batch else corpus.entries
        chosen = [one for one in entries if not options.with_truth or one.has_truth]
        return lay_out(chosen, options.lay_out, options.mirrors)
    if not options.corpus or not options.batch:
        parser.error("--corpus and --batch say what is run")
    if options.times:
        return time_again(corpus, options)
    refusal = _refusal(corpus, options)
    if refusal:
        parser.error(refusal)
    return run(corpus, options)


def _refusal(corpus: manifest.Manifest, options: argparse.Namespace) -> str:
    """Return why this run may not be, empty where it may."""
    if (options.record or options.latest) and (options.only or options.own_batch):
        return "a run that is kept is one of the whole batch, with its measured sizes"
    if options.latest and not _has_first_run(options.batch, options.tier):
        return f"{options.batch} has no first run with {options.tier} yet (--record)"
    held_out = options.batch in corpus.held_out and not options.before
    if held_out and not options.record and not _has_first_run(options.batch, options.tier):
        return f"{options.batch} is held out: its first run is recorded (--record)"
    if options.record and _has_first_run(options.batch, options.tier, before=options.before):
        return f"{options.batch} has its first run with {options.tier}"
    return ""


def _has_first_run(batch: str, tier: str, *, before: bool = False) -> bool:
    place = (batch, tier, before)
    return any((r["batch"], r["tier"], bool(r.get("before"))) == place for r in records.load())


def lay_out(entries: Sequence[Entry], folder: Path, mirrors: Path | None) -> int:
    """Write the files of the repositories, and data beside scripts; 1 where one cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = 0
    for entry in entries:
        try:
            layout.lay_out(entry.repository, folder, mirrors)
            beside.root_of(entry, folder)
        except layout.MissingRepositoryError as error:
            missing += 1
            print(error, file=sys.stderr)
    return 1 if missing else 0


def run(corpus: manifest.Manifest, options: argparse.Namespace) -> int:
    """Run a batch, print the report, and record it where that was asked for."""
    only = frozenset(filter(None, options.only.split(",")))
    results = []
    product = running.Product(options.product.resolve(), options.python)
    for entry in corpus.of(options.batch):
        if (not only or entry.id in only) and (entry.has_truth or not options.with_truth):
            asked = replace(entry, data=()) if options.without_data else entry
            if options.own_batch:
                asked = replace(asked, truth=())
            result = result_of(asked, options.corpus, options.tier, product)
            said = f"{entry.id}: {result.outcome} {result.tier or result.cause}"
            print(said, file=sys.stderr, flush=True)
            results.append(result)
    print(judging.report(options.batch, options.tier, results))
    if options.record or options.latest:
        keep = records.append if options.record else records.replace
        keep(
            records.run_of(
                options.batch,
                options.tier,
                results,
                date=datetime.now(timezone.utc).date().isoformat(),
                commit=_commit(options.product),
                before=options.before,
                with_data=not options.without_data,
                with_truth=options.with_truth,
                libraries=options.libraries,
            )
        )
    return 0


def time_again(corpus: manifest.Manifest, options: argparse.Namespace) -> int:
    """Ask about the scripts of a first run again, and keep how long the answers take."""
    product = running.Product(options.product.resolve(), options.python)
    asked = records.first_run(options.batch, options.tier, _commit(options.product))["scripts"]
    times = {}
    for entry in corpus.of(options.batch):
        if entry.id in asked:
            result = result_of(replace(entry, truth=()), options.corpus, options.tier, product)
            times[entry.id] = (round(result.seconds, 2), result.cpu_s)
            print(f"{entry.id}: {times[entry.id]}", file=sys.stderr, flush=True)
    records.keep_times(options.batch, options.tier, times)
    return 0


def result_of(entry: Entry, corpus: Path, tier: str, product: running.Product) -> Result:
    """Ask about one script at its own batch size and at each that was measured."""
    source = (corpus / entry.repository.folder).resolve()
    if not entry.can_run:
        return Result(entry, ())
    if not (source / entry.script).is_file():
        return Result(entry, (), f"{entry.script} is not in {source}")
    root = beside.root_of(entry, corpus.resolve())
    batches = [None, *(point.batch for point in entry.truth if point.batch is not None)]
    answers = [running.ask(entry, root, tier, product, batch) for batch in batches]
    return Result(entry, tuple(answers))


def _commit(product: Path) -> str:
    done = subprocess.run(["git", "-C", str(product), "rev-parse", "--short", "HEAD"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
