"""Parts of pages that the code writes: tables of rules, thresholds, makers and metrics, the pages
of filters and keys, and what each key of a model means.

`generate.py` writes them; tests compare the pages with what is made here.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise

from pydantic import BaseModel

from gpuconsole.config import Thresholds, TriageSection
from gpuconsole.core.filters import FIELDS
from gpuconsole.remote.vendors import FAMILIES, VENDORS
from gpuconsole.remote.vendors import model as vendor_model
from gpuconsole.session.metrics import jobs
from gpuconsole.session.metrics.collector import METRICS, most_series
from gpuconsole.session.metrics.model import Metric, Scope
from gpuconsole.triage.rules import RULES, when, worded
from gpuconsole.triage.xids import XIDS
from gpuconsole.tui.keymap.registry import AREAS, in_area, verbs


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


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the string below each field of a model and its bases; fields without are left out.

    Read from the source when a page asks for it: at import it would cost every command more than
    all other work on the models.
    """
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            texts |= _below_fields(base)
    return {name: text for name, text in texts.items() if name in model.model_fields}


def _below_fields(model: type[BaseModel]) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    definition = tree.body[0]
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def rules_table() -> str:
    """Return the table of rules as Markdown, with the thresholds as they are unless set."""
    limits = Thresholds()
    lines = ["| rule | severity | about | holds when | for |", "| --- | --- | --- | --- | --- |"]
    for rule in RULES:
        held = f"`{rule.holds}` ({worded(limits, rule.holds)})"
        cells = (f"`{rule.name}`", rule.severity.value, rule.about, when(rule, limits), held)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def thresholds_table() -> str:
    """Return the table of thresholds as Markdown."""
    limits = Thresholds()
    lines = ["| key below `triage: limits:` | unless set | what it says |", "| --- | --- | --- |"]
    for name, meaning in descriptions(Thresholds).items():
        lines.append(f"| `{name}` | {worded(limits, name)} | {meaning} |")
    return "\n".join(lines)


def telling_table() -> str:
    """Return the table of the settings for who is notified, as Markdown."""
    lines = ["| key below `triage:` | unless set | what it says |", "| --- | --- | --- |"]
    settings = TriageSection()
    for name, meaning in descriptions(TriageSection).items():
        if name != "limits":
            value = getattr(settings, name)
            shown = f"`{value}`" if isinstance(value, str) and value else "off"
            lines.append(f"| `{name}` | {shown} | {meaning} |")
    return "\n".join(lines)


def xids_table() -> str:
    """Return the table of known XID numbers as Markdown."""
    lines = ["| XID | what happened | look first at | what to do |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {xid.number} | {xid.words} | the {xid.side} | {xid.advice} |" for xid in XIDS.values()
    ]
    return "\n".join(lines)


def triage_page(text: str) -> str:
    """Return docs/triage.md with its tables as the code has them now."""
    tables = {
        "rules": rules_table(),
        "thresholds": thresholds_table(),
        "telling": telling_table(),
        "xids": xids_table(),
    }
    for name, table in tables.items():
        text = with_part(text, name, table)
    return text


def tells_table() -> str:
    """Return what each maker's tools tell of a device, as Markdown."""
    lines = [
        f"| maker | back end | {' | '.join(vendor_model.FIELDS)} |",
        f"| --- | --- |{' :-: |' * len(vendor_model.FIELDS)}",
    ]
    for vendor in VENDORS:
        cells = " | ".join("yes" if name in vendor.tells else "-" for name in vendor_model.FIELDS)
        lines.append(f"| {vendor.title} | `{vendor.backend}` | {cells} |")
    lines.append("")
    lines += [f"- **{vendor.title}.** {vendor.notes}" for vendor in VENDORS if vendor.notes]
    return "\n".join(lines)


def asked_table() -> str:
    """Return the commands that are run, as Markdown: of each family the first way that works."""
    lines = ["| tools for | tried in this order | every so many rounds |", "| --- | --- | --- |"]
    lines += [
        f"| {family.name} | `{' '.join(command.argv)}` | {command.every} |"
        for family in FAMILIES
        for way in family.ways
        for command in way.commands
    ]
    return "\n".join(lines)


def vendors_page(text: str) -> str:
    """Return docs/vendors.md with its tables as the code has them now."""
    return with_part(with_part(text, "tells", tells_table()), "asked", asked_table())


_SCOPES: tuple[Scope, ...] = ("device", "host", "lab")
_EXAMPLES = ((1, 8), (6, 28), (100, 800), (1000, 8000))


def metrics_table(scope: Scope) -> str:
    """Return the table of the metrics of a scope as Markdown."""
    lines = [
        "| metric | kind | labels | series | what it tells |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [_metric_row(metric) for metric in METRICS if metric.scope == scope]
    return "\n".join(lines)


def job_table() -> str:
    """Return the table of the metrics that name jobs as Markdown."""
    head = metrics_table("lab").splitlines()[:2]
    return "\n".join([*head, *map(_metric_row, jobs.METRICS)])


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


def metrics_page(text: str) -> str:
    """Return docs/metrics.md with its tables as the code has them now."""
    tables = {f"metrics {scope}": metrics_table(scope) for scope in _SCOPES}
    for name, table in {**tables, "series": series_table(), "metrics jobs": job_table()}.items():
        text = with_part(text, name, table)
    return text


def _metric_row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
    cells = (f"`{metric.name}`", metric.kind, labels, str(metric.most_series), metric.help)
    return f"| {' | '.join(cells)} |"


_FILTERS_HEAD = """# Filters

Written by `docs/generate.py` from `gpuconsole/core/filters.py`; do not edit by hand.

`/` opens the filter on every screen that lists something. It narrows as one types; the number of
matches is shown at the right, and a mistake is underlined with its column. `esc` clears the filter,
and once more leaves it.

| write | to get |
| --- | --- |
| `a100` | names that contain it; capitals do not matter |
| `r07` | also hosts with a label of that value, such as `rack: r07` |
| `rack:r07 util<20` | what fulfils both |
| `gpu:a100\\|h100` | either: alternatives of one word |
| `!user:me` | what does not fulfil it |
| `"rtx 7"` | a word with blanks or signs |
| `rack:r07` | any word that is no field is a label of the host (or of the job) |

Figures compare with `<`, `<=`, `>`, `>=` and `=`; a unit may follow the number (`%`, `C`, `W`,
`GiB`). A device without that figure does not match.

| field | asks | of | for example |
| --- | --- | --- | --- |
"""


def filters_page() -> str:
    """Return the text of docs/filters.md."""
    rows = []
    for field in FIELDS:
        example = field.example.replace("|", "\\|")
        rows.append(f"| `{field.name}{field.sign}` | {field.says} | {field.of} | `{example}` |\n")
    return _FILTERS_HEAD + "".join(rows)


def keys_page() -> str:
    """Return the text of docs/keys.md."""
    lines = [
        "# Keys",
        "",
        "Made by `python docs/generate.py`.",
        "Keys marked * change something and are absent in read-only mode.",
        "",
        "Any key can be changed by its id in `config.yaml`, several with commas between them:",
        "`keys: {fleet.filter: ctrl+f}`. A wrong id or key is reported with the nearest, and so",
        "are two things under one key.",
    ]
    lines += ["", "## One letter, one verb", ""]
    lines += ["A letter means the same on every screen that has it; in a dialog it is an answer."]
    lines += ["", "| letter | verb | where |", "| --- | --- | --- |"]
    for letter, by_verb in verbs().items():
        for verb, areas in by_verb.items():
            lines.append(f"| `{letter}` | {verb} | {', '.join(areas)} |")
    for area, title in AREAS.items():
        lines += ["", f"## {title}", "", "| key | does | id |", "| --- | --- | --- |"]
        for key in in_area(area):
            mark = " *" if key.writes else ""
            shown = " ".join(f"`{part}`" for part in key.shown.split(" "))
            lines.append(f"| {shown} | {key.help}{mark} | `{key.id}` |")
    return "\n".join(lines) + "\n"
