"""The metrics in words, for the page that documents them."""

from __future__ import annotations

from gpuconsole.core.generated_pages import with_part
from gpuconsole.session.metrics import jobs
from gpuconsole.session.metrics.collector import METRICS, most_series
from gpuconsole.session.metrics.model import Metric, Scope

_SCOPES: tuple[Scope, ...] = ("device", "host", "lab")
_EXAMPLES = ((1, 8), (6, 28), (100, 800), (1000, 8000))


def metrics_table(scope: Scope) -> str:
    """Return the table of the metrics of a scope as Markdown."""
    lines = [
        "| metric | kind | labels | series | what it tells |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [_row(metric) for metric in METRICS if metric.scope == scope]
    return "\n".join(lines)


def job_table() -> str:
    """Return the table of the metrics that name jobs as Markdown."""
    head = metrics_table("lab").splitlines()[:2]
    return "\n".join([*head, *map(_row, jobs.METRICS)])


def series_table() -> str:
    """Return how many series there are at most, as Markdown."""
    per = {scope: sum(m.most_series for m in METRICS if m.scope == scope) for scope in _SCOPES}
    lines = [
        f"At most {per['lab']} + {per['host']} × hosts + {per['device']} × devices:",
        "",
        "| hosts | devices | series at most |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {hosts} | {some} | {most_series(hosts, some)} |" for hosts, some in _EXAMPLES]
    return "\n".join(lines)


def page(text: str) -> str:
    """Return docs/metrics.md with its tables as the code has them now."""
    tables = {f"metrics {scope}": metrics_table(scope) for scope in _SCOPES}
    for name, table in {**tables, "series": series_table(), "metrics jobs": job_table()}.items():
        text = with_part(text, name, table)
    return text


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
    cells = (f"`{metric.name}`", metric.kind, labels, str(metric.most_series), metric.help)
    return f"| {' | '.join(cells)} |"
