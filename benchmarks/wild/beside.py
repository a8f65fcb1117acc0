"""Lays data beside a script: a copy of its repository, in which a user would begin.

The repository itself stays as its clone is; the copy shares its files by hard links, so it costs
little room. Nothing that runs in it may write into a file in place: what preflight runs sees it
through an overlay, and the truth is measured in a further copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from benchmarks.wild import data
from benchmarks.wild.manifest import Entry

FOLDER = "with-data"


def root_of(entry: Entry, corpus: Path) -> Path:
    """Return the folder of a script's repository with its data, laid out if it is not yet.

    An entry without recipes is in the repository as its clone is.
    """
    source = corpus / entry.repository.folder
    if not entry.data:
        return source
    target = corpus / FOLDER / re.sub(r"[^\w.-]", "_", entry.id)
    finished = target.with_name(f".{target.name}.{_digest(entry)}")
    if finished.exists():
        return target
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)
    data.make(entry.data, target / entry.workdir)
    finished.touch()
    return target


def _digest(entry: Entry) -> str:
    """Return a digest of all that decides what is laid beside a script."""
    said = json.dumps([entry.repository.commit, entry.workdir, [dict(one) for one in entry.data]])
    code = [path.read_bytes() for path in sorted(Path(data.__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"\0".join([said.encode(), *code])).hexdigest()[:12]
