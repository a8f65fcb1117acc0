"""Measure a Paddle script in this machine's sandbox: read a request, answer in JSON lines.

Each batch size runs in a fresh process of its own, so that one run leaves nothing to the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any

VERSION = 1
MODES = ("traced", "symbolic", "meta")
TAIL = 8000
"""Characters kept of what the script prints."""
DOUBLINGS = (1, 4)
"""A pair of batch sizes is tried as asked, then larger: some scripts refuse very small ones."""


def main() -> None:
    """Answer the request on standard input."""
    if sys.argv[1:] == ["--run"]:
        import probe_run

        probe_run.main()
        return
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
    say(out, measured(request, out))


def read(names: Any) -> Any:
    """Return the request: of a named file, else of standard input."""
    if not names:
        return json.load(sys.stdin)
    with open(names[0], encoding="utf-8") as file:
        return json.load(file)


def say(out: Any, message: Any) -> None:
    """Write one line."""
    out.write(json.dumps(message, separators=(",", ":")) + "\n")
    out.flush()


def fault(kind: Any, message: Any, file: Any = "", line: Any = 0) -> Any:
    """Return an error as the protocol has it."""
    return {"kind": kind, "message": message, "file": file, "line": line}


def measured(request: Any, out: Any) -> Any:
    """Run the script at each batch size and return the message that ends the answer."""
    answer = {}
    if request["mode"] == "symbolic":
        answer = pair(request, request["batches"], out)
        if answer.get("error", {}).get("kind") == "script":
            # Some layers look into their parameters while they are made: give those memory.
            answer = pair(dict(request, lazy=False), request["batches"], out)
        return answer
    if request["mode"] == "meta":
        return pair(request, request["batches"], out)
    for factor in DOUBLINGS:
        sizes = [size * factor for size in request["batches"]]
        answer = pair(request, sizes, out)
        refused = answer.get("error", {}).get("kind") == "script"
        if not refused or request["batch"]["how"] == "fixed":
            break
    return answer


def pair(request: Any, sizes: Any, out: Any) -> Any:
    """Run the script once for each of some batch sizes."""
    runs = []
    for place, size in enumerate(sizes):

        def forward(share: Any, stage: Any, place: Any = place, size: Any = size) -> None:
            whole = (place + share) / len(sizes)
            say(out, {"progress": round(whole, 3), "stage": f"batch {size}, {stage}"})

        answer = run(dict(request, size=size), forward)
        if "error" in answer:
            return answer
        runs.append(answer["run"])
    return {"document": document(request, runs)}


def document(request: Any, runs: Any) -> Any:
    """Return the document of a finished measurement."""
    paddle = runs[0].pop("paddle")
    for one in runs[1:]:
        one.pop("paddle")
    return {
        "version": VERSION,
        "mode": request["mode"],
        "script": request["script"],
        "paddle": paddle,
        "runs": runs,
    }


def run(request: Any, forward: Any) -> Any:
    """Run the script in a process of its own; return its last message."""
    if request.get("source"):
        try:
            laid_out(request)
        except OSError as error:
            return {"error": fault("memory", f"The project could not be laid out: {error}")}
    here = os.path.abspath(__file__)
    child: Any = subprocess.Popen(
        [sys.executable, here, "--run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(request),
        universal_newlines=True,
        errors="replace",
    )
    kept: list[Any] = []
    reader = threading.Thread(target=keep_tail, args=(child.stderr, kept), daemon=True)
    reader.start()
    answer = {}
    try:
        child.stdin.write(json.dumps(request))
        child.stdin.close()
        for line in child.stdout:
            message = json.loads(line)
            if "progress" in message:
                forward(message["progress"], message["stage"])
            else:
                answer = message
    except (OSError, ValueError) as error:
        answer = {"error": fault("script", f"The measured process broke off: {error}")}
    child.wait()
    reader.join(2)
    if not answer:
        answer = {"error": fault(*ended(child.returncode))}
    if "error" in answer:
        answer["error"]["output"] = "".join(kept)[-TAIL:]
    return answer


def ended(code: Any) -> Any:
    """Return kind and words for a process that ended without an answer."""
    if code in (-9, 137):
        return "memory", "The measured process was killed: the sandbox's memory was not enough."
    if code < 0:
        return "script", f"The measured process was ended by signal {-code}."
    return "script", f"The script ended the process itself, with code {code}."


def keep_tail(stream: Any, kept: Any) -> None:
    """Read a stream to its end, keeping the last of it."""
    length = 0
    while True:
        text = stream.read(1024)
        if not text:
            return
        kept.append(text)
        length += len(text)
        while length - len(kept[0]) > TAIL:
            length -= len(kept.pop(0))


def laid_out(request: Any) -> None:
    """Give a run the project as it is, without what an earlier run left."""
    import probe_tree

    root = request["root"]
    os.makedirs(root, exist_ok=True)
    _MOUNTED.setdefault(root, frozenset(os.listdir(root)))
    probe_tree.cleared(root, _MOUNTED[root])
    probe_tree.lay(request["source"], root, request.get("files"))


_MOUNTED: dict[Any, Any] = {}
"""What was in a root before the project was laid out there."""


def environment(request: Any) -> Any:
    """Return the child's environment: the task's own variables, one thread, no accelerator,
    nothing written beside code."""
    own = {**os.environ, **request.get("env", {})}
    folders = [os.path.join(request["root"], one) for one in request.get("path", ())]
    folders += [one for one in own.get("PYTHONPATH", "").split(os.pathsep) if one]
    own["PYTHONPATH"] = os.pathsep.join(folders)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        own[name] = "1"
    own.update(
        CUDA_VISIBLE_DEVICES="",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONHASHSEED="0",
        PYTHONUNBUFFERED="1",
        MPLBACKEND="Agg",
        FLAGS_allocator_strategy="auto_growth",
    )
    return own


if __name__ == "__main__":
    main()
