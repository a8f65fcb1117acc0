"""Pages of the documentation of which the code writes a part."""

from __future__ import annotations


def with_part(page: str, name: str, part: str) -> str:
    """Return a page with `part` between its marks `<!-- name -->` and `<!-- /name -->`.

    ValueError where the page does not have both: nothing of a page may be lost.
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, begun, rest = page.partition(begin)
    _, ended, tail = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"a page without {begin} and {end}")
    return f"{head}{begin}\n{part}\n{end}{tail}"
