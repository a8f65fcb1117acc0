"""Tables and documents of images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuconsole.cli.output import error_text, said, say, table, text
from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.fleet import Host
from gpuconsole.core.images import ImageRecord
from gpuconsole.core.units import format_mib, iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import joined, msg, name, sentences
from gpuconsole.placement.rules.image_compatibility import cuda_version, paddle_version
from gpuconsole.session.images.service import same_image

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from gpuconsole.session.images.copy import Copied
    from gpuconsole.session.images.service import FetchedImage, HostImages, Imaging
    from gpuconsole.state.files.images import ImageCheck, Pin

_ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One image of one host, under one name; or a name that is wanted there and missing."""

    host: str
    name: str
    record: ImageRecord | None
    paddle: str
    cuda: str
    jobs: tuple[str, ...]
    note: str


def rows(imaging: Imaging, listings: Iterable[HostImages]) -> list[Row]:
    """Return what each host has, and what waiting jobs want there."""
    listings = tuple(listings)
    wanted = imaging.wanted([listing_.host.name for listing_ in listings])
    result = []
    for listing_ in listings:
        due = {fetch.image: fetch.jobs for fetch in wanted if fetch.host == listing_.host.name}
        result += [
            row
            for record in listing_.images
            for row in _present(imaging, listing_.host, record, due)
        ]
        result += [] if listing_.error else _missing(listing_, due)
    return result


def _present(
    imaging: Imaging, host: Host, record: ImageRecord, due: Mapping[str, tuple[str, ...]]
) -> Iterator[Row]:
    backend = host.devices[0].backend if host.devices else "cpu"
    facts = imaging.learned(ImageFacts(record.env, record.architecture, record.id))
    wanting = sorted({job for image in due if same_image(record, image) for job in due[image]})
    for called in record.names or record.digests:
        paddle = facts.paddle or paddle_version(called)
        doubt = imaging.doubts(called, backend, record, host) if wanting else ""
        yield Row(host.name, called, record, paddle, _cuda(called, facts), tuple(wanting), doubt)


def _missing(images: HostImages, due: Mapping[str, tuple[str, ...]]) -> list[Row]:
    return [
        Row(images.host.name, image, None, paddle_version(image), _cuda(image, ImageFacts()), jobs,
            "not there")
        for image, jobs in due.items()
        if not any(same_image(record, image) for record in images.images)
    ]  # fmt: skip


def listing(listings: Sequence[HostImages], rows_: Iterable[Row]) -> list[RenderableType]:
    """Return the table, and a line for each host that could not be asked."""
    view = table("host", "image", "id", "size", "Paddle", "CUDA", "wanted by", right=("size",))
    for row in rows_:
        record = row.record
        wanted = ", ".join(row.jobs)
        view.add_row(
            *map(
                text,
                (
                    row.host,
                    row.name,
                    record.id.removeprefix("sha256:")[:_ID_DIGITS] if record else "-",
                    format_mib(record.size_mib) if record else "-",
                    row.paddle or "-",
                    row.cuda or "-",
                    joined(": ", filter(None, (name(wanted), row.note))) if wanted else "",
                ),
            )
        )
    broken = [
        said(joined(": ", (name(each.host.name), each.error))) for each in listings if each.error
    ]
    return [view, *broken]


def listing_document(
    imaging: Imaging, listings: Iterable[HostImages], rows_: Sequence[Row]
) -> dict[str, object]:
    """Return `image list --json`."""
    return {
        "hosts": [
            {
                "name": each.host.name,
                "error": each.error or None,
                "images": [_row_document(row) for row in rows_ if row.host == each.host.name],
            }
            for each in listings
        ],
        "pins": [pin_document(pin) for pin in imaging.notes.pins().values()],
    }


def _row_document(row: Row) -> dict[str, object]:
    record = row.record
    return {
        "name": row.name,
        "present": record is not None,
        "id": record.id if record else None,
        "digests": list(record.digests) if record else [],
        "size_mib": record.size_mib if record else None,
        "created_at": iso_utc(record.created_at) if record else None,
        "paddle": row.paddle or None,
        "cuda": row.cuda or None,
        "jobs": list(row.jobs),
        "note": row.note or None,
    }


def fetched(done: Iterable[FetchedImage]) -> Table:
    """Return how each fetch ended."""
    view = table("host", "image", "outcome")
    for pulled in done:
        error = pulled.error
        outcome = "there" if error is None else sentences(error_text(error), error.hint)
        view.add_row(text(pulled.fetch.host), text(pulled.fetch.image), said(outcome))
    return view


def fetched_document(done: Iterable[FetchedImage]) -> dict[str, object]:
    """Return `image pull --json`."""
    return {
        "images": [
            {
                "host": pulled.fetch.host,
                "image": pulled.fetch.image,
                "jobs": list(pulled.fetch.jobs),
                "error": pulled.error.as_json()["error"] if pulled.error is not None else None,
            }
            for pulled in done
        ]
    }


def pin_document(pin: Pin) -> dict[str, object]:
    """Return a pin for `--json`."""
    return {
        "image": pin.image,
        "pinned": True,
        "reference": pin.reference,
        "id": pin.id or None,
        "by": pin.by,
        "at": iso_utc(pin.at),
    }


def check(image_check: ImageCheck, faults: Sequence[str]) -> list[RenderableType]:
    """Return what Paddle said, and what speaks against it."""
    view = table("", "")
    view.show_header = False
    for label, value in _said(image_check).items():
        view.add_row(said(label), text(value or "-"))
    judged = [said(fault, "bold") for fault in faults]
    good = msg("{image} will do on {host}.", image=image_check.image, host=image_check.host)
    return [view, *(judged or [said(good)])]


def _said(image_check: ImageCheck) -> Mapping[str, str]:
    return {
        "image": image_check.image,
        "id": image_check.id,
        "Python": image_check.python,
        "Paddle": image_check.paddle,
        "built for": image_check.built_for,
        "CUDA": image_check.cuda,
        "cuDNN": image_check.cudnn,
        "given": image_check.given or say("no device"),
        "computed on": image_check.device,
    }


def check_document(image_check: ImageCheck, faults: Sequence[str]) -> dict[str, object]:
    """Return `image check --json`."""
    return {
        "image": image_check.image,
        "host": image_check.host,
        "id": image_check.id or None,
        "checked_at": iso_utc(image_check.at),
        "python": image_check.python or None,
        "paddle": image_check.paddle or None,
        "built_for": image_check.built_for or None,
        "cuda": image_check.cuda or None,
        "cudnn": image_check.cudnn or None,
        "given": image_check.given or None,
        "device": image_check.device or None,
        "faults": list(faults),
    }


def copied_document(source: str, done: Iterable[tuple[str, Copied]]) -> dict[str, object]:
    """Return `image copy --json`."""
    return {
        "from": source,
        "copies": [
            {
                "to": target,
                "image": copied.image,
                "id": copied.id,
                "already": copied.already,
                "sent_mib": copied.sent_mib,
                "seconds": copied.seconds,
            }
            for target, copied in done
        ],
    }


def _cuda(name: str, facts: ImageFacts) -> str:
    cuda = cuda_version(name, facts)
    if cuda is not None:
        return ".".join(map(str, cuda[:2]))
    return facts.paddle_cuda if facts.paddle_cuda != "none" else ""
