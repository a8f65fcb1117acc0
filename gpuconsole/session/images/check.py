"""What Paddle says of itself inside an image: is it there, for what is it built, where does it
compute."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib import resources

from gpuconsole.core.containers import (
    CALIBRATION_FOLDER,
    LABEL_PREFIX,
    ContainerSpec,
    Engine,
    ImageFacts,
    Lease,
)
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.images import Progress
from gpuconsole.core.text import clean
from gpuconsole.core.vendors import Vendor, vendor_of
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, RefusedError, UnreachableError
from gpuconsole.placement.rules.image_compatibility import NO_CUDA, image_fault
from gpuconsole.remote import injected
from gpuconsole.remote.injected.image_probe import KINDS, MARK
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.vendor_runtime import require_confined, runtime_of
from gpuconsole.state import new_nonce
from gpuconsole.state.files.images import ImageCheck

WALL_S = 120
"""The container ends by itself after so long, also where the console is gone."""
MEMORY_MIB = 8192.0
NOBODY = "65534:65534"
_LAST_LINES = 20


async def run_check(
    context: Context,
    engine: Engine,
    host: Host,
    device: Device | None,
    image: str,
    progress: Progress,
) -> ImageCheck:
    """Run a container of an image for some seconds and return what its Paddle said.

    With a device that is leased meanwhile. Container and lease are gone afterwards. RefusedError
    when the container ended without a word; errors of the engine as they come.
    """
    await engine.ensure_image(image, progress)
    facts = await engine.image_facts(image)
    run = _Run(context, engine, host, device, image)
    progress(f"asking Paddle in {image}" + (f" on device {device.index}" if device else ""))
    try:
        said = await run.answer()
    finally:
        await run.clear()
    given = f"{device.model} (device {device.index})" if device else ""
    return ImageCheck(
        id=facts.id if facts is not None else "",
        image=image,
        host=host.name,
        at=context.clock.now(),
        paddle=said.get("paddle", ""),
        cuda=said.get("cuda", ""),
        cudnn=said.get("cudnn", ""),
        python=said.get("python", ""),
        built_for=said.get("built_for", ""),
        device=said.get("device", "").removeprefix("Place(").removesuffix(")"),
        given=given,
        error=said.get("error", ""),
    )


def faults(check: ImageCheck, backend: str, host: Host, facts: ImageFacts | None) -> list[str]:
    """Return what speaks against an image on a host for jobs of a back end, as sentences."""
    if check.error:
        what = "computes wrongly" if check.paddle else "cannot be imported"
        return [f"Paddle {what}: {check.error}"]
    sentences = []
    facts = replace(facts or ImageFacts(), paddle=check.paddle, paddle_cuda=check.cuda)
    if backend in KINDS and check.built_for == "cpu":
        sentences.append(
            f"Paddle {check.paddle} is built for processors alone, the host has {backend}."
        )
    else:
        unsuited = image_fault(backend, check.image, facts, host.facts)
        sentences += [unsuited] if unsuited else []
    if check.given and check.device.startswith("cpu") and check.built_for != "cpu":
        sentences.append(
            f"Paddle computed on the CPU although it had {check.given}: it found no driver or no"
            " device in the container."
        )
    return sentences


def learned(facts: ImageFacts, check: ImageCheck | None) -> ImageFacts:
    """Return what is known of an image with what a check found in it."""
    if check is None or not check.paddle:
        return facts
    return replace(facts, paddle=check.paddle, paddle_cuda=check.cuda or NO_CUDA)


class _Run:
    """One check from lease to clearing."""

    def __init__(
        self, context: Context, engine: Engine, host: Host, device: Device | None, image: str
    ) -> None:
        self._context = context
        self._engine = engine
        self._host = host
        self._device = device
        self._image = image
        self._name = f"image-check-{new_nonce()}"
        self._container = ""
        self._claimed = False

    async def answer(self) -> dict[str, str]:
        await self._claim()
        self._container = await self._engine.create(await self._spec())
        await self._engine.start(self._container)
        last: list[str] = []
        async for line in self._lines():
            if line.startswith(MARK):
                return _said(line.removeprefix(MARK))
            last = [*last, line][-_LAST_LINES:]
        text = "; ".join(last[-3:]) or "it said nothing"
        raise RefusedError(
            "The image cannot be checked",
            msg(
                "{image} on {name} ended without an answer: {said}.",
                image=self._image,
                name=self._host.name,
                said=text,
            ),
            "Check that the image has Python: gpuconsole image list",
        )

    async def clear(self) -> None:
        """Remove the container and give the device back, as far as the host can be reached."""
        with contextlib.suppress(UnreachableError, EngineError):
            if self._container:
                await self._engine.remove(self._container)
        with contextlib.suppress(UnreachableError, EngineError):
            if self._claimed and self._device is not None:
                await self._engine.release(f"{self._name}-1", [self._device.uuid])

    async def _claim(self) -> None:
        if self._device is None:
            return
        context = self._context
        lease = Lease(self._device.uuid, self._name, f"{self._name}-1", context.user,
                      context.journal.id, context.clock.now())  # fmt: skip
        await self._engine.claim([lease])
        self._claimed = True

    async def _spec(self) -> ContainerSpec:
        user, device, runtime = NOBODY, self._device, ""
        groups: tuple[int, ...] | None = None
        maker: Vendor | None = None
        if device is not None:
            maker = vendor_of(device.backend, device.vendor)
            require_confined(maker, self._context.settings)
            runtime = await runtime_of(maker, self._engine)
            account = await self._engine.prepare(CALIBRATION_FOLDER)
            groups = account.node_groups
            # Nodes of devices often belong to a group of the account's.
            user = f"{account.uid}:{account.gid}" if account.uid else NOBODY
        labels = {"job": self._name, "attempt": f"{self._name}-1", "nonce": self._name,
                  "user": self._context.user, "journal": self._context.journal.id}  # fmt: skip
        return ContainerSpec(
            name=f"gpuconsole-{self._name}",
            image=self._image,
            command=("timeout", "-k", "5", str(WALL_S), "python", "-c", _source()),
            working_dir="/",
            env={"HOME": "/tmp"} | ({} if device else {"NVIDIA_VISIBLE_DEVICES": "void"}),
            labels={LABEL_PREFIX + name: value for name, value in labels.items()},
            backend=device.backend if device else "cpu",
            device_uuids=(device.uuid,) if device else (),
            device_indexes=(device.index,) if device else (),
            user=user,
            memory_limit_mib=MEMORY_MIB,
            shm_size_mib=64.0,
            vendor="" if maker is None else maker.name,
            runtime=runtime,
            node_groups=groups,
        )

    async def _lines(self) -> AsyncIterator[str]:
        rest = b""
        chunks = self._engine.logs(self._container, follow=True)
        async with contextlib.aclosing(chunks) as stream:  # type: ignore[type-var]
            async for chunk in stream:
                *lines, rest = (rest + chunk).split(b"\n")
                # What floods is no answer of ours.
                rest = rest[-65536:]
                for line in lines:
                    yield clean(line.decode(errors="replace").strip(), 4096)


def _source() -> str:
    return resources.files(injected.__name__).joinpath("image_probe.py").read_text("utf-8")


def _said(text: str) -> dict[str, str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return {"error": "what it said cannot be read"}
    return {str(key)[:40]: clean(str(value), 2000) for key, value in document.items()}
