"""What the site does with links that leave `docs/`: on the site there is no checkout around it.

A file of the repository that a page links to is copied into the site; a folder is named only.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
COPIES = "repository"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the files of the repository to which pages link."""
    for page in [*files.documentation_pages()]:
        for _, target, _ in LINK.findall(page.content_string):
            path = _path(page.src_uri, target)
            uri = f"{COPIES}/{_text_name(path)}"
            if (ROOT / path).is_file() and files.get_file_from_path(uri) is None:
                source = (ROOT / path).read_text(encoding="utf-8")
                files.append(File.generated(config, uri, content=source))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Point such links at the copies, and take the link from what has none."""

    def moved(match: re.Match[str]) -> str:
        text, target = match.group(1), match.group(2)
        path = _path(page.file.src_uri, target)
        uri = f"{COPIES}/{_text_name(path)}"
        if files.get_file_from_path(uri) is None:
            return text if path in text else f"{text} (`{path}`)"
        return f"[{text}]({posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')})"

    return LINK.sub(moved, markdown)


def _path(page: str, target: str) -> str:
    """Return where in the repository a link of a page below `docs/` leads."""
    return os.path.normpath(posixpath.join("docs", posixpath.dirname(page), target))


def _text_name(path: str) -> str:
    # A page of Markdown would be built as one of the site, and its own links with it.
    return f"{path}.txt" if path.endswith((".md", ".py", ".yaml", ".service")) else path
