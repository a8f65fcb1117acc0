"""Measure a Paddle script in this machine's sandbox: read a request, answer in JSON lines.

Each batch size runs in a process of its own: a fresh one, or a copy of one that has come no further
than to where the size is asked for. So one run leaves nothing to the next.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import TYPE_CHECKING

from .notes import LATER_MEMORY
from .runs import budget, forking, linearity, read_files, starts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from .documents import Ahead, Answer, Batch, Change, Document, Fault, Request, Run
    from .runs.starts import Forward

VERSION = 1
MODES = ("traced", "meta", "device")
LINE = 300
"""Characters of its last line that are said."""
DOUBLINGS = (1, 4)
"""Batch sizes are tried as asked, then larger: some scripts refuse very small ones."""
MOST_TURNED = 2
"""Tests of unknown data that are given the other answer, where a script fails with the first."""
OTHER_NUMBERS = (16, 2)
"""What numbers of unknown data are taken to be in place of ones; the second where the first is
none that the script can use."""
ROUNDED = 1.25
"""What sizes that are rounded up may differ from a line."""
LATER = "The peak comes after the first {} steps: {} were followed."
KILLED = (-9, 137)
"""How a process ends that the system or its sandbox killed for its memory."""
SHORTER = "With another batch size the script was not followed as far: only its own is reported."
LONGEST_S = 240.0
"""Longest expected run at the script's own batch, where smaller ones do not tell its memory."""

OF_SCRIPT = ("script", "unclear")
"""Errors that ended the script: its fault, or perhaps that of what was made up for it."""
OF_SIZE = (*OF_SCRIPT, "memory")
"""Errors that another batch size may avoid."""


def main() -> None:
    """Answer the request on standard input."""
    out = sys.stdout
    try:
        request = read(sys.argv[1:])
        if request.get("version") != VERSION:
            raise ValueError(f"version {request.get('version')!r} of the request is not known")
        if request.get("mode") not in MODES:
            raise ValueError(f"the probe has no mode {request.get('mode')!r}")
    except (OSError, ValueError) as error:
        say(out, {"error": fault("request", f"The request cannot be read: {error}")})
        return
    try:
        say(out, measured(request, out))
    finally:
        end()


def read(names: Sequence[str]) -> Request:
    """Return the request: of a named file, else of standard input."""
    request: Request
    if not names:
        request = json.load(sys.stdin)
    else:
        with open(names[0], encoding="utf-8") as file:
            request = json.load(file)
    return request


def say(out: TextIO, message: Mapping[str, object]) -> None:
    """Write one line."""
    out.write(json.dumps(message, separators=(",", ":")) + "\n")
    out.flush()


def fault(kind: str, message: str, file: str = "", line: int = 0) -> Fault:
    """Return an error as the protocol has it."""
    return {"kind": kind, "message": message, "file": file, "line": line}


def measured(request: Request, out: TextIO) -> Answer:
    """Run the script at each batch size and return the message that ends the answer."""
    limit_s = request.get("limit_s")
    if limit_s is None and request["mode"] == "meta":
        limit_s = budget.WITHOUT_DATA_S
    budget.begin(limit_s)
    answer: Answer
    if request["mode"] == "meta":
        began = with_other_answers(request, at_its_own(request, out), out)
        answer = with_shorter_lengths(with_other_numbers(began, out), out)
        return closed(request, as_asked(request, answer, out))
    if request["mode"] == "device":
        return closed(request, peaks(request, out))
    answer = {}
    for factor in DOUBLINGS:
        sizes = [size * factor for size in request["batches"]]
        answer = batches(request, sizes, out)
        if answer.get("error", {}).get("kind") not in OF_SCRIPT:
            break
    else:
        # It lives with no batch but its own.
        return closed(request, as_written(request, out))
    return closed(request, further(request, answer, out))


def peaks(request: Request, out: TextIO) -> Answer:
    """Run the script on its device once for each batch size; return the runs, or an error."""
    runs = []
    sizes = request["batches"]
    for place, size in enumerate(sizes):
        answer = run({**request, "size": size}, stages(out, size, place, len(sizes)))
        if "error" in answer:
            return answer
        runs.append(answer["run"])
    return {"runs": runs}


def batches(request: Request, sizes: list[int], out: TextIO) -> Answer:
    """Run the script once for each of some batch sizes; return the runs, or an error.

    The first run tells the script's own batch size where nothing else did: loaders of other sizes
    then keep their proportion to it. Where a size changes nothing there is but one run.
    """
    runs: list[Run] = []
    for place, wanted in enumerate(sizes):
        size = budget.afforded(request, wanted, runs)
        if size is None:
            break
        asked: Request = {**request, "size": size}
        if runs:
            asked = alike(asked, runs[0])
        if request["mode"] == "meta" and not runs and len(sizes) > 1:
            asked["ahead"] = ahead(sizes[1])
        answer = with_fewer(asked, stages(out, size, place, len(sizes), sizes[-1]), runs)
        if lacks_room(answer) and len(runs) > 1:
            budget.unchecked(runs, budget.NO_ROOM)
            break
        if "error" in answer:
            return answer
        runs = sorted([*runs, answer["run"]], key=lambda run_: run_["batch"])
        if place == 0 and linearity.other_sizes(runs[0], request["batch"]):
            own: Batch = {**request["batch"], "value": runs[0]["own_batch"]}
            return batches({**request, "batch": own}, sizes, out)
        if place == 1 and linearity.misplaced(runs[0], runs[1], request["batch"]):
            loaders: Batch = {"how": "loader", "value": runs[0]["trained_on"]}
            return batches({**request, "batch": loaders}, sizes, out)
        if place == 1:
            runs = pair(*runs)
            if len(runs) == 1:
                break
    return {"runs": runs}


def with_fewer(request: Request, forward: Forward, runs: Sequence[Run]) -> Answer:
    """Run the script; the second time with fewer samples where the memory is not enough."""
    answer = run(request, forward)
    fewer = budget.fewer(runs[0]["batch"]) if len(runs) == 1 else None
    if fewer is None or not lacks_room(answer) or request["mode"] != "traced":
        return answer
    return run({**request, "size": fewer}, forward)


def lacks_room(answer: Answer) -> bool:
    """Tell whether the memory of this place was not enough for a run."""
    return answer.get("error", {}).get("kind") == "memory"


def alike(request: Request, first: Run) -> Request:
    """Return a request for a run that is like the first, by what that reported of itself."""
    return {**request, **forking.alike(first)}


def further(request: Request, answer: Answer, out: TextIO) -> Answer:
    """Follow what is not a line in the batch to the script's own batch, where that is soon done."""
    runs = answer.get("runs", [])
    own = request.get("own") or next(
        (run_["own_batch"] for run_ in runs if run_["own_batch"]), None
    )
    if len(runs) < 3 or linearity.straight(runs) or not own or own <= runs[-1]["batch"]:
        return answer
    seconds = linearity.seconds_at(own, runs)
    if seconds > min(LONGEST_S, budget.left_s()) or budget.refusal(own, runs):
        return answer
    asked: Request = {**request, "size": own}
    if request["batch"]["how"] == "loader":
        asked["batch"] = {**request["batch"], "value": runs[0]["own_batch"]}
    more = run(asked, stages(out, own, 0, 1))
    # Where it does not go that far, the smaller runs bound it.
    return {"runs": [*runs, more["run"]]} if "run" in more else answer


def at_its_own(request: Request, out: TextIO) -> Answer:
    """Run the script at its own batch size and its double: without data that costs little, and
    nothing has to be derived from other sizes. Where the size is not known, the loader that trains
    shows it in a run of the script as it is written."""
    batch = request["batch"]
    if batch["how"] == "loader" and not batch.get("value"):
        asked: Request = {**request, "size": None, "ahead": ahead(forking.DOUBLE)}
        first = run(asked, stages(out, "of its own", 0, 2, "twice its own"))
        if "error" in first and first["error"]["kind"] not in OF_SIZE:
            return first
        if "run" in first and not first["run"]["loaders"]:
            # There is nothing that another size could be put into.
            return {"runs": [linearity.fixed(first["run"])]}
        own = first["run"]["own_batch"] if "run" in first else None
        if own:
            asked = {**request, "size": 2 * own, "batch": {**batch, "value": own}}
            second = run(alike(asked, first["run"]), stages(out, 2 * own, 1, 2))
            if "run" in second:
                return {"runs": pair(first["run"], second["run"])}
            if second["error"]["kind"] == "time":
                return {"runs": [linearity.fixed(first["run"])]}
    answer = batches(request, request["batches"], out)
    kind = answer.get("error", {}).get("kind")
    # Of several lines that write the size one alone may have been edited: shapes collide then, in
    # an operator or in a program.
    if kind in OF_SCRIPT or (kind == "unsupported" and batch["how"] == "edit"):
        whole = as_written(request, out)
        # What it does with its own batch size is what it does.
        return by_option(request, whole, out) if "runs" in whole else whole
    return answer


def with_other_answers(request: Request, answer: Answer, out: TextIO) -> Answer:
    """Run a script that failed once more with the other answer to the last test of unknown data
    before that, and to those before it: it may only fail where that is taken wrongly."""
    turned: list[str] = []
    last = answer
    while len(turned) < MOST_TURNED and last.get("error", {}).get("kind") in OF_SCRIPT:
        tests = [test for test in last["error"].get("tests", ()) if test not in turned]
        if not tests:
            break
        turned.append(tests[-1])
        last = at_its_own({**request, "turned": [*turned]}, out)
    if "runs" not in last:
        return answer
    if turned:
        places = ", ".join(turned)
        note = f"With the other answer to tests of unknown data the script fails (at {places})."
        last["runs"][0]["notes"].append(note)
    return last


def by_option(request: Request, whole: Answer, out: TextIO) -> Answer:
    """Run a script that lives with no batch but its own at others by its own option for it, where
    one alone holds its size; it may need the size in other places than its loaders."""
    first = whole["runs"][0]
    if len(whole["runs"]) > 1 or len(first["options"]) != 1:
        return whole
    words = [*request["args"], first["options"][0], "{batch}"]
    batch: Batch = {"how": "argument", "args": words, "value": first["own_batch"]}
    answer = batches({**request, "batch": batch}, request["batches"], out)
    return answer if "runs" in answer else whole


def with_other_numbers(answer: Answer, out: TextIO) -> Answer:
    """Run the script once more where it asked for numbers that depend on data, with others in
    their place: memory that changes with them is not known without the data."""
    if "runs" not in answer:
        return answer
    first = answer["runs"][0]
    if not first.get("numbers_at") or first.get("settled"):
        return answer
    places = ", ".join(first["numbers_at"])
    for number in OTHER_NUMBERS:
        asked = alike({**first["request"], "number": number}, first)
        again = run(asked, stages(out, first["batch"], 0, 1))
        if "run" not in again:
            continue
        if linearity.unmoved(*linearity.level(first, again["run"])):
            return answer
        if few_or_all(asked, first, out):
            first["notes"].append(COUNTS.format(places))
            return answer
        most = next_to_nothing(first, number, again["run"], out)
        if most is None:
            return of_first_steps(answer, again["run"], places)
        first["notes"].append(
            f"Taken for granted: numbers that only data gives are 1 (asked at {places}); "
            f"{linearity.MOST_NUMBER} would change the memory by {most / 2**20:.2f} MiB."
        )
        return answer
    first["notes"].append(
        f"Taken for granted: numbers that only data gives are 1 (asked at {places}); the script "
        "did not run with others."
    )
    return answer


PART = 4
"""Of such lengths one in so many, to see how low the peak may lie."""


def with_shorter_lengths(answer: Answer, out: TextIO) -> Answer:
    """Note how low the peak may be where lengths that depend on data were taken at their largest.

    It is the highest of sums that are lines in those lengths, so a line through two of its points
    is not above it beyond them: at lengths of nothing.
    """
    if "runs" not in answer:
        return answer
    first = answer["runs"][0]
    if not forking.is_open(first):
        return answer
    asked = alike({**first["request"], "part": PART}, first)
    again = run(asked, stages(out, first["batch"], 0, 1))
    if "run" not in again:
        return answer
    most, some = (linearity.peak(run_) for run_ in linearity.level(first, again["run"]))
    least = max(0.0, (PART * some - most) / (PART - 1) / max(1, most))
    for run_ in answer["runs"] if least < 1 - SLIGHTLY else ():
        run_["least"] = least
        run_["flags"] = sorted({*run_["flags"], "bound"})
    return answer


COUNTS = ("Counts of points in maps, which only data gives, move the peak by less than 1 %: from "
          "one point to all of them (asked at {}).")  # fmt: skip
SLIGHTLY = 0.01
"""Share of the peak by which counts may move it."""


def few_or_all(asked: Request, first: Run, out: TextIO) -> bool:
    """Tell whether memory changes only with counts of points in maps, and its peak hardly: other
    numbers change nothing, and neither few points nor all of them change much."""
    if not first.get("counted"):
        return False
    runs = []
    changes: tuple[Change, ...] = ({"counts": "few"}, {"number": 1, "counts": "all"})
    for change in changes:
        answer = run({**asked, **change}, stages(out, first["batch"], 0, 1))
        if "run" not in answer:
            return False
        runs.append(linearity.level(first, answer["run"]))
    few, many = runs
    low, high = (linearity.peak(run_) for run_ in many)
    return linearity.unmoved(*few) and abs(high - low) <= SLIGHTLY * low


def next_to_nothing(first: Run, number: int, other: Run, out: TextIO) -> float | None:
    """Return the bytes by which the largest number of unknown data changes a run, where that is
    next to nothing: a buffer of a few bytes for each, as a third run confirms; else None."""
    most, least = linearity.at_most(first, number, other), OTHER_NUMBERS[-1]
    if most is None or number == least:
        return None
    asked = alike({**first["request"], "number": least}, first)
    third = run(asked, stages(out, first["batch"], 0, 1))
    # What grows faster than the number would be more than these tell.
    if "run" not in third or linearity.at_most(first, least, third["run"]) is None:
        return None
    expected = (number - 1) / (least - 1) * linearity.moved(first, third["run"])
    return most if linearity.moved(first, other) <= expected * ROUNDED else None


def as_asked(request: Request, answer: Answer, out: TextIO) -> Answer:
    """Run the script at the batch size that is asked about too, where it does something else at
    each, or its data is in one batch of two larger ones: they tell nothing of it."""
    runs, size = answer.get("runs", []), request.get("own")
    if not runs or not size or size in [run_["batch"] for run_ in runs]:
        return answer
    if len(runs) == 1:
        return beside_its_own(request, runs[0], size, out)
    split = linearity.in_one_batch(runs[0]) > size
    if runs[0]["events"] == runs[-1]["events"] and not split:
        return answer
    # It goes its own way: an epoch is another number of its batches.
    own_way: Request = {**runs[-1]["request"], "size": size, "until": None, "way": None}
    more = run(own_way, stages(out, size, 0, 1))
    return {"runs": [*runs, more["run"]]} if "run" in more else answer


def beside_its_own(request: Request, first: Run, size: int, out: TextIO) -> Answer:
    """Run a script at the size asked about where its double failed, or did not go as far: too few
    samples for that are no reason for a smaller batch."""
    own = first["own_batch"]
    if not own or not first["loaders"] or not first.get("fixed"):
        return {"runs": [first]}
    # Without the mark of a run of one size alone.
    single: Run = {**first}
    del single["fixed"]
    batch: Batch = {**request["batch"], "value": own}
    more = run(alike({**request, "size": size, "batch": batch}, first), stages(out, size, 0, 1))
    if "run" not in more:
        return {"runs": [first]}
    runs = pair(*sorted([single, more["run"]], key=lambda run_: run_["batch"]))
    return {"runs": runs if len(runs) > 1 else [first]}


def of_first_steps(answer: Answer, again: Run, places: str) -> Answer:
    """Return an answer for the first steps alone where other numbers of unknown data change only
    what comes later, as an evaluation; an error where they change these steps too."""
    first = answer["runs"][0]
    early = first.get("early", 0)
    words = f"the memory changes with a number that only data gives (asked at {places})"
    steps, same = (linearity.upto(run_, early) for run_ in (first, again))
    if not 0 < early <= len(again["cycles"]) or not linearity.unmoved(steps, same):
        return {"error": fault("unsupported", f"Unsupported: {words}")}
    before, *after = (linearity.peak(run_) for run_ in (steps, first, again))
    if max(after) <= before * (1 + SLIGHTLY):
        runs = [linearity.upto(run_, early) for run_ in answer["runs"]]
        runs[0]["notes"].append(f"The peak of the first {early} steps: in what follows {words}.")
        return {"runs": runs}
    if max(after) > min(after) * (1 + SLIGHTLY):
        # What follows needs more than these steps, and nothing tells how much.
        return {"error": fault("unsupported", f"Unsupported: after the first steps {words}")}
    for run_ in answer["runs"]:
        # Nor is it shown that other numbers than these two move it as little.
        run_["reached"] = "steps"
    first["notes"].append(f"After the first steps {words}: with two of them hardly any.")
    return answer


def pair(small: Run, large: Run) -> list[Run]:
    """Return two runs that went as far as each other, or the first alone where the batch size
    changes nothing, or the other did not go as far and the first is of the script's own size."""
    few, many = linearity.level(small, large)
    if linearity.unmoved(few, many):
        return [linearity.fixed(small)]
    if few is not small and small["own_batch"] == small["batch"]:
        small["notes"].append(SHORTER)
        return [linearity.fixed(small)]
    return [few, many]


def as_written(request: Request, out: TextIO) -> Answer:
    """Run the script with its own batch size, and with twice that where that is soon done."""
    batch = request["batch"]
    first = run(
        {**request, "size": None, "batch": {"how": "fixed", "value": batch["value"]}},
        stages(out, "of its own", 0, 1),
    )
    if "error" in first:
        return first
    own, seconds = first["run"]["own_batch"], first["run"]["seconds"]
    if own and 2 * seconds <= min(LONGEST_S, budget.left_s()):
        if batch["how"] == "loader":
            batch = {**batch, "value": own}
        more = run({**request, "size": 2 * own, "batch": batch}, stages(out, 2 * own, 1, 2))
        if "run" in more:
            return {"runs": pair(first["run"], more["run"])}
    return {"runs": [linearity.fixed(first["run"])]}


def stages(
    out: TextIO, size: int | str, place: int, count: int, later: int | str | None = None
) -> Forward:
    """Return what tells how far one run of several is. With a share of 1 to 2 it is the run at a
    later size that follows from it, beyond that another at its own."""

    def forward(share: float, stage: str) -> None:
        whole = min(0.97, (place + share) / count)
        shown = later if 1 < share < 2 else size
        say(out, {"progress": round(whole, 3), "stage": f"batch {shown}, {stage}"})

    return forward


def closed(request: Request, answer: Answer) -> Answer:
    """Return the message that ends the answer."""
    return {"document": document(request, answer["runs"])} if "runs" in answer else answer


def document(request: Request, runs: list[Run]) -> Document:
    """Return the document of a finished measurement."""
    paddle = runs[0]["paddle"]
    for run_ in runs:
        early = run_.pop("early", 0)
        if run_.get("until"):
            run_["notes"].append(LATER.format(early, run_["cycles_seen"]))
        del run_["paddle"]
        run_.pop("request", None)
        run_.pop("settled", None)
        run_.pop("options", None)
        run_.pop("counted", None)
        run_.pop("whole", None)
        run_.pop("way", None)
        run_.pop("later_s", None)
        run_.pop("own_sizes", None)
        run_.pop("trains", None)
        run_.pop("by_itself", None)
        run_.pop("past_half", None)
        run_.pop("drawn", None)
        run_.pop("loaders", None)
    return {
        "read": read_files.united(runs),
        "version": VERSION,
        "mode": request["mode"],
        "script": request["script"],
        "backend": request.get("backend", ""),
        "paddle": paddle,
        "runs": runs,
    }


def run(request: Request, forward: Forward) -> Answer:
    """Run the script; return its last message.

    A run from which others followed leaves their answers to the next calls; a process that waits
    does what follows from where it began.
    """
    for place, (asked, answer) in enumerate(_AHEAD):
        if asked == request:
            del _AHEAD[place]
            return answer
    _AHEAD.clear()
    answer = again(request, forward) or started(request, forward)
    if "run" in answer:
        answer["run"]["request"] = request
    return answer


def again(request: Request, forward: Forward) -> Answer | None:
    """Do a run in a copy of the process that waits; None where it cannot be one of its runs, or
    came to no answer there."""
    if not _LIVE or not _LIVE[-1].follows(request):
        return None
    _LIVE[-1].ask(request)
    answers = said(_LIVE[-1], forward)
    return answers[0] if answers else None


def started(request: Request, forward: Forward) -> Answer:
    """Do a run in a process of its own."""
    end()
    if request.get("source"):
        try:
            laid_out(request)
        except OSError as error:
            return {"error": fault("memory", f"The project could not be laid out: {error}")}
    here = os.path.dirname(os.path.abspath(__file__))
    sent: Request = {**request, **budget.later(request)}
    _LIVE.append(starts.Start(sent, starts.command(here), environment(request)))
    answers = said(_LIVE[-1], forward)
    if not _LIVE[-1].is_waiting:
        end()
    changes: list[Change] = [{}]
    further = request.pop("ahead", None)
    # Where the first came to no run, nothing says of what requests the others are answers.
    if further is not None and len(answers) > 1 and "run" in answers[0]:
        first, second = answers[0]["run"], answers[1].get("run", {})
        first["settled"] = second.pop("settled", False)
        changes += forking.changes(request, further, forking.summary_of(first))
        changes = forking.without_numbers(changes) if first["settled"] else changes
    for change, answer in zip(changes[1:], answers[1:]):
        asked: Request = {**request, **change}
        if "run" in answer:
            answer["run"]["request"] = asked
        _AHEAD.append((asked, answer))
    return answers[0]


def end() -> None:
    """End the process that waits."""
    while _LIVE:
        _LIVE.pop().end()


_LIVE: list[starts.Start] = []
"""The process that runs the script, or waits for a further request."""

_AHEAD: list[tuple[Request, Answer]] = []
"""Further requests with their answers, which the last run gave as well."""


def ahead(size: int | str) -> Ahead:
    """Return what follows a run from the same start: another size; if the script asks for numbers
    of unknown data, others in their place; if it took lengths at their largest, shorter ones."""
    return {"size": size, "number": OTHER_NUMBERS[0], "part": PART}


def said(start: starts.Start, forward: Forward) -> list[Answer]:
    """Return the answers of a process, of which there is one at least where it has ended."""
    began, mode = time.monotonic(), start.request["mode"]
    answers, late = start.answers(forward, _most_s(start.request))
    if late and not answers:
        answers.append({"error": fault("time", budget.over())})
    if not answers and not start.is_waiting:
        answers.append({"error": fault(*ended(start.code, mode))})
    for place, answer in enumerate(answers):
        if "run" in answer:
            later_s = answer["run"].get("later_s", 0.0)
            answer["run"]["seconds"] = round(time.monotonic() - began - later_s, 3)
            alone = answer["run"].pop("goes_on", False)
            # A process without data may wait for further requests.
            if alone and mode == "traced" and start.code in KILLED:
                answers[place] = {"error": with_output(fault("memory", LATER_MEMORY), start.tail)}
        if "error" in answer:
            answer["error"] = with_output(answer["error"], start.tail)
    return answers


def _most_s(request: Request) -> float | None:
    """Return how long a run may take, in seconds; None for as long as it wants. Runs that compute
    with data are planned by the time that is left, and ended by who asked for them."""
    most = budget.left_s()
    return max(0.0, most) if request["mode"] == "meta" and most < math.inf else None


def with_output(error: Fault, output: str) -> Fault:
    """Return an error with what was printed, and with the last line of it for its reason where it
    has no words of its own."""
    whole: Fault = {**error, "output": output}
    lines = output.split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if whole.pop("wordless", False) and last:
        whole["message"] += f" ({last[:LINE]})"
    return whole


def ended(code: int, mode: str) -> tuple[str, str]:
    """Return kind and words for a process that ended without an answer."""
    if mode == "meta" and code < 0 and code != -9:
        # Without data Paddle's own inference of shapes breaks off, not the script.
        return "unsupported", f"Paddle broke off by signal {-code} while it inferred shapes."
    if code in KILLED:
        return "memory", "The measured process was killed: the sandbox's memory was not enough."
    if code < 0:
        return "script", f"The measured process was ended by signal {-code}."
    return "script", f"The script ended the process itself, with code {code}."


def laid_out(request: Request) -> None:
    """Give a run the project as it is, without what an earlier run left."""
    from .runs import project_copy

    root = request["root"]
    os.makedirs(root, exist_ok=True)
    home = project_copy.home_of({**os.environ, **request.get("env", {})})
    for folder in (root, *request.get("outside", ()), *home):
        _MOUNTED.setdefault(folder, frozenset(os.listdir(folder)))
        project_copy.cleared(folder, _MOUNTED[folder])
    linked = request.get("linked", True)
    project_copy.lay(request["source"], root, request.get("files"), linked)


_MOUNTED: dict[str, frozenset[str]] = {}
"""What was in a folder before the project was laid out there, or anything made up."""


GIT = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
"""Scripts ask git which version they are; their project may belong to another user here."""


def environment(request: Request) -> dict[str, str]:
    """Return the child's environment: the task's own variables, one thread, no accelerator
    but where it is measured on one, nothing written beside code."""
    own = {**os.environ, **request.get("env", {})}
    folders = [os.path.join(request["root"], folder) for folder in request.get("path", ())]
    folders += [folder for folder in own.get("PYTHONPATH", "").split(os.pathsep) if folder]
    own["PYTHONPATH"] = os.pathsep.join(folders)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                 "OPENCV_FOR_THREADS_NUM"):  # fmt: skip
        own[name] = "1"
    if request["mode"] == "device":
        own["FLAGS_gpu_memory_limit_mb"] = str(request["limit_mib"])
    else:
        own["CUDA_VISIBLE_DEVICES"] = ""
    own.update(
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONHASHSEED="0",
        PYTHONUNBUFFERED="1",
        MPLBACKEND="Agg",
        **GIT,
        FLAGS_allocator_strategy="auto_growth",
    )
    return own
