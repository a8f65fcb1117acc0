"""`image`: what hosts have, what waiting jobs need of them, and how it gets there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show, tell
from gpuconsole.cli.sessions import drive
from gpuconsole.core import wording
from gpuconsole.core.wording import joined, msg, sentences
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.images.copy import Copied
    from gpuconsole.session.images.service import FetchedImage, HostImages
    from gpuconsole.session.session import Session
    from gpuconsole.state.files.images import ImageCheck, Pin

_WAIT_S = 15.0
"""How long the hosts' first pictures are waited for."""
_host = click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    shell_complete=shell_completion.hosts,
    help="Only this; may repeat.",
)


@click.group()
def image() -> None:
    """List, pull, pin, check and copy the images of hosts.

    None of these starts a job. A host without network gets an image from another one: `image copy`.
    """


@image.command("list")
@_host
@common
def list_images(hosts: tuple[str, ...]) -> int:
    """List the images of each host, and which waiting jobs want them.

    A host that could not be reached is listed with the reason. Exit 3 if none could be reached.
    """
    from gpuconsole.cli.views import images as image_views

    async def work(session: Session) -> tuple[HostImages, ...]:
        await _seen(session, hosts)
        listings = await session.images.listing(hosts)
        rows = image_views.rows(session.images, listings)
        if options().as_json:
            print_document(image_views.listing_document(session.images, listings, rows))
        else:
            show(*image_views.listing(listings, rows))
        return listings

    listings = drive(work)
    return 3 if listings and all(listing.error for listing in listings) else 0


@image.command()
@click.argument("images", nargs=-1, metavar="[IMAGE...]")
@click.option("--waiting", is_flag=True, help="The images of waiting jobs, the most urgent first.")
@_host
@common
def pull(images: tuple[str, ...], waiting: bool, hosts: tuple[str, ...]) -> int:
    """Pull images before jobs need them.

    Hosts behind one jump host share a link: they pull one after another, others at the same time.
    Ctrl-C ends the pulls; complete layers stay. Exit 3 if a host did not get an image.
    """
    if bool(images) == waiting:
        raise UsageError("What?", "Name images, or say --waiting.", "See: gpuconsole image --help")
    from gpuconsole.cli.views import images as image_views
    from gpuconsole.core.images import parse_reference
    from gpuconsole.placement.prepull import Fetch

    for name in images:
        parse_reference(name)

    async def work(session: Session) -> tuple[FetchedImage, ...]:
        await _seen(session, hosts)
        if waiting:
            fetches = session.images.wanted(hosts)
        else:
            there = hosts or tuple(host.name for host in session.snapshot().hosts)
            fetches = tuple(
                Fetch(host, session.images.notes.resolved(name))
                for name in images
                for host in there
            )
        return await session.images.fetch(fetches, lambda host, said: _telling(host)(said))

    done = drive(work)
    if options().as_json:
        print_document(image_views.fetched_document(done))
    elif not done:
        tell("No waiting job needs an image.")
    else:
        show(image_views.fetched(done))
    return 3 if any(fetch.error is not None for fetch in done) else 0


@image.command()
@click.argument("name", metavar="IMAGE")
@click.option(
    "--host",
    default="",
    metavar="HOST",
    shell_complete=shell_completion.hosts,
    help="Pin the image that this host has.",
)
@click.option(
    "--task",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it into this task file instead.",
)
@click.option("--remove", is_flag=True, help="Remove the pin.")
@common
def pin(name: str, host: str, task: Path | None, remove: bool) -> int:
    """Fix the image that a name means, by its digest.

    Tasks that are submitted from now on with that name run that image, and so do hosts that have it
    as their default. An image that is in no registry is pinned by its id; hosts then get it by
    `image copy`.
    """
    from gpuconsole.cli.views import images as image_views

    if remove:
        drive(lambda session: _unpin(session, name), fleet=False)
        if options().as_json:
            print_document({"image": name, "pinned": False})
        else:
            tell(msg("{name} is not pinned any more.", name=name))
        return 0

    async def work(session: Session) -> Pin:
        await _seen(session, (host,) if host else ())
        if task is None:
            return await session.images.pin(name, host)
        from gpuconsole.session.images.task_file_image import write_image

        resolved = await session.images.resolve(name, host)
        write_image(task, resolved.reference)
        return resolved

    resolved = drive(work)
    if options().as_json:
        print_document(image_views.pin_document(resolved))
    else:
        values = {"image": resolved.image, "reference": resolved.reference}
        if task is None:
            tell(msg("{image} is {reference}", **values))
        else:
            tell(msg("{image} is {reference} in {path}", path=task, **values))
    return 0


async def _unpin(session: Session, name: str) -> None:
    session.images.unpin(name)


@image.command()
@click.argument("name", metavar="IMAGE")
@click.option(
    "--host", required=True, metavar="HOST", shell_complete=shell_completion.hosts, help="Where."
)
@click.option("--no-device", is_flag=True, help="Check without a device.")
@common
def check(name: str, host: str, no_device: bool) -> int:
    """Run Paddle in an image and show its version, its build and its devices.

    Runs a container for some seconds, on an idle device that is leased during that time. The result
    is stored: placement compares it with the drivers of all hosts. Exit 1 if the image cannot be
    used on that host.
    """
    from gpuconsole.cli.views import images as image_views

    async def work(session: Session) -> tuple[ImageCheck, list[str]]:
        await _seen(session, (host,))
        return await session.images.check(name, host, note, device=not no_device)

    result, faults = drive(work)
    if options().as_json:
        print_document(image_views.check_document(result, faults))
    else:
        show(*image_views.check(result, faults))
    return 1 if faults else 0


@image.command()
@click.argument("name", metavar="IMAGE")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="HOST",
    shell_complete=shell_completion.hosts,
    help="The host that has it.",
)
@click.option(
    "--to",
    "targets",
    required=True,
    multiple=True,
    metavar="HOST",
    shell_complete=shell_completion.hosts,
    help="May repeat.",
)
@click.option("--replace", is_flag=True, help="Replace another image of that name.")
@common
def copy(name: str, source: str, targets: tuple[str, ...], replace: bool) -> int:
    """Copy an image from host to host through this console, for a host that cannot pull.

    Nothing is stored on this machine. The image that arrived is compared with the one that was
    sent. Ctrl-C ends the copy; the host discards an incomplete one.
    """

    async def work(session: Session) -> list[tuple[str, Copied]]:
        await _seen(session, (source, *targets))
        done = []
        for target in targets:
            copied = await session.images.copy(
                name, source, target, _telling(target), replace=replace
            )
            done.append((target, copied))
        return done

    done = drive(work)
    if options().as_json:
        from gpuconsole.cli.views import images as image_views

        print_document(image_views.copied_document(source, done))
    else:
        for target, copied in done:
            if copied.already:
                how = msg("{host} had it already", host=target)
            else:
                how = msg("{host} has it after {time}", host=target, time=f"{copied.seconds:.0f} s")
            tell(joined(": ", (how, wording.name(f"{name} ({copied.id})"))))
    return 0


@image.command("dockerfile")
@click.argument("script", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--base", default="", metavar="IMAGE", help="Image with Paddle; else the default.")
@click.option(
    "--host",
    default="",
    metavar="HOST",
    shell_complete=shell_completion.hosts,
    help="Pin the base as this host has it.",
)
@click.option(
    "--project",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="What the build sees; else the script's folder.",
)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write to this file instead of stdout; an existing file is not replaced.",
)  # fmt: skip
@common
def dockerfile_command(
    script: Path, base: str, host: str, project: Path | None, output: Path | None
) -> int:
    """Write a Dockerfile for a script.

    In layers: a base (pinned where it can be), the packages of requirements.txt or of the script's
    imports, a user who is not root, the code last. The script is read, never run.
    """
    from gpuconsole.session.images.dockerfile import dockerfile

    async def work(session: Session) -> str:
        name = base or session.images.default(host)
        if not host:
            return session.images.notes.resolved(name)
        await _seen(session, (host,))
        from gpuconsole.core.images import parse_reference

        return (
            name
            if parse_reference(name).pinned
            else (await session.images.resolve(name, host)).reference
        )

    source = script.expanduser().resolve()
    folder = project.expanduser().resolve() if project else source.parent
    generated = dockerfile(source, folder, drive(work, fleet=bool(host)))
    for sentence in generated.notes:
        note(sentence)
    if output is not None:
        _write_new(output, generated.text)
    if options().as_json:
        file = str(output) if output else None
        packages, notes = list(generated.packages), list(generated.notes)
        document = {
            "dockerfile": generated.text,
            "packages": packages,
            "notes": notes,
            "file": file,
        }
        print_document(document)
    elif output is not None:
        build = f"docker build -f {output} {folder}"
        tell(
            sentences(
                msg("Wrote {path}.", path=output), msg("Build it with: {command}", command=build)
            )
        )
    else:
        print(generated.text, end="")
    return 0


def _telling(host: str) -> Callable[[str], None]:
    return lambda said: note(joined(": ", (wording.name(host), said)))


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            "File exists", msg("{path} is left alone.", path=path), "Name another."
        ) from None
    except OSError as error:
        raise UsageError("Cannot write", f"{path}: {error.strerror}.", "Name another.") from None


async def _seen(session: Session, hosts: tuple[str, ...]) -> None:
    """Wait until the named hosts, or all, have answered or failed."""
    for name in hosts or ("",):
        await session.first_frames(_WAIT_S, name)
