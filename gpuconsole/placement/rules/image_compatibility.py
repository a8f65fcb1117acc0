"""Whether a host can run a container image: its back end, and its CUDA against the host's driver.

What is not known is no fault: the engine has the last word, and `image_note` says what was unknown.

An image made with a CUDA toolkit runs under a driver that knows that CUDA version or a later one.
Since CUDA 11 it also runs under any driver of the same major version from that version's first on
(minor version compatibility, `cuda_versions`). NVIDIA's container toolkit asks for what the image
itself demands in NVIDIA_REQUIRE_CUDA, and does not start the container otherwise: words between
spaces are alternatives, those joined by commas must all hold.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib import resources

from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.fleet import HostFacts
from gpuconsole.core.vendors import unproven
from gpuconsole.core.wording import msg

Version = tuple[int, ...]


def version(text: str) -> Version:
    """Return a version's numbers; () where the text is none."""
    match = re.match(r"\d{1,6}(?:\.\d{1,6}){0,3}", text.strip())
    return () if match is None else tuple(int(part) for part in match[0].split("."))


def text(numbers: Version) -> str:
    """Return a version as it is written; drivers with two digits: 450.80.02."""
    head, *rest = numbers
    if head < 100:
        return ".".join(map(str, numbers))
    return ".".join([str(head), *(f"{part:02d}" for part in rest)])


@cache
def drivers() -> Mapping[Version, Version]:
    """Return the first driver of each toolkit, or of each major version of toolkits."""
    lines = (resources.files("gpuconsole") / "data" / "cuda-drivers.csv").read_text("utf-8")
    table = csv.DictReader(line for line in lines.splitlines() if not line.startswith("#"))
    return {version(row["cuda"]): version(row["driver"]) for row in table}


def first_driver(cuda: Version) -> Version | None:
    """Return the first driver under which a toolkit runs; None where the table does not say."""
    return drivers().get(cuda[:1]) or drivers().get(cuda[:2])


def runs(wanted: Version, driver: Version, runtime: Version) -> bool:
    """Tell whether a driver that offers the CUDA version `runtime` runs a toolkit; one of which
    nothing is known may."""
    if runtime and runtime[:2] >= wanted[:2]:
        return True
    first = first_driver(wanted)
    if driver and first is not None:
        return driver >= first
    # A major version that is not in the table: only the host's own word counts.
    return not runtime or runtime[0] >= wanted[0]


NO_CUDA = "none"
"""What `ImageFacts.paddle_cuda` says of a Paddle that knows no CUDA."""
_WORDS = {"gpu": "CUDA", "npu": "Ascend NPUs", "xpu": "Kunlunxin XPUs", "dcu": "Hygon DCUs"}
_WORDS |= {"mlu": "Cambricon MLUs", "gcu": "Enflame GCUs", "iluvatar_gpu": "Iluvatar GPUs"}
_WORDS |= {"metax_gpu": "MetaX GPUs", "musa": "Moore Threads GPUs", "cpu": "processors alone"}
_VARIABLES = {
    "gpu": ("CUDA_VERSION", "NVIDIA_REQUIRE_CUDA", "NV_CUDA_CUDART_VERSION"),
    "npu": ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"),
    "dcu": ("ROCM_PATH", "DTKROOT", "HIP_PATH"),
}
READ = (*(name for names in _VARIABLES.values() for name in names), "NVIDIA_DISABLE_REQUIRE")
"""The only variables of an image that are looked at: others may be secret."""

_OTHERS = (
    ("npu", re.compile(r"(?:^|[-_:])(?:npu|ascend\w*|cann\d*)(?=[-_:.]|$)")),
    ("xpu", re.compile(r"(?:^|[-_:])(?:xpu|kunlun\w*)(?=[-_:.]|$)")),
    ("dcu", re.compile(r"(?:^|[-_:])(?:dcu|dtk[\d.]*|rocm[\d.]*)(?=[-_:.]|$)")),
    ("mlu", re.compile(r"(?:^|[-_:])(?:mlu|cambricon)(?=[-_:.]|$)")),
    ("gcu", re.compile(r"(?:^|[-_:])(?:gcu|topsrider[\d.]*)(?=[-_:.]|$)")),
    ("iluvatar_gpu", re.compile(r"(?:^|[-_:])(?:ixuca|corex|iluvatar)(?=[-_:.]|$)")),
    ("metax_gpu", re.compile(r"(?:^|[-_:])(?:metax|maca[\d.]*)(?=[-_:.]|$)")),
    ("musa", re.compile(r"(?:^|[-_:])musa[\d.]*(?=[-_:.]|$)")),
)
"""Words in names of images, as Paddle's installation pages write them."""
_GPU = re.compile(r"(?:^|[-_:])(?:gpu|cuda[\d.]*)(?=[-_:.]|$)")
_CUDA = re.compile(r"cuda[-_:]?(\d{1,2})\.(\d{1,2})(?!\d)")
_CUDA_IMAGE = re.compile(r"(?:^|/)cuda:(\d{1,2})\.(\d{1,2})")
_PLAIN_PADDLE = re.compile(r"(?:^|/)paddlepaddle/paddle:\d+\.\d+\.\d+(?:rc\d+|-rc\d+)?$")
"""Paddle's own tag without a word for a device is the build without devices."""
_PADDLE = re.compile(r"paddle[\w-]*:v?(\d+\.\d+\.\d+(?:-?rc\d+)?)(?![\d.])")
_CONDITION = re.compile(r"(cuda|driver|brand|arch)(>=|<=|!=|=|<|>)([\w.]+)")


class Held(Enum):
    """Whether a condition holds."""

    NO = 0
    PERHAPS = 1
    YES = 2


def image_fault(
    task_backend: str, image: str, image_facts: ImageFacts | None, host_facts: HostFacts
) -> str:
    """Return why a host cannot run an image for a task, as a sentence; "" when nothing says so.

    `image_facts` is what the host's engine says about the image; None where it has not been asked
    or does not have it: then the image's name alone speaks.
    """
    if task_backend == "cpu":
        return ""
    if not image:
        return (
            f"Neither the task nor the host names an image for {_WORDS.get(task_backend, 'it')};"
            f" set `image:`, or `images: {{{task_backend}: NAME}}` in the lab's settings."
        )
    made_for = image_backend(image, image_facts)
    if made_for and made_for != task_backend:
        return msg(
            "The image {image} is made for {kind}, the task wants {wanted}.",
            image=image,
            kind=_WORDS[made_for],
            wanted=_WORDS.get(task_backend, task_backend),
        )
    if task_backend != "gpu":
        return ""
    return _paddle_fault(image, image_facts, host_facts) or _cuda_fault(
        image, image_facts, host_facts
    )


def image_note(
    task_backend: str, image: str, image_facts: ImageFacts | None, host_facts: HostFacts
) -> str:
    """Return what is uncertain about an image on a host, or holds with a limit; "" if nothing
    is."""
    if task_backend == "cpu":
        return ""
    if not image_backend(image, image_facts):
        when = " before it is there" if image_facts is None else ""
        return f"The devices that {image} is made for are unknown{when}."
    if task_backend != "gpu":
        unchecked = (
            "Whether the image's tools suit the host's driver is not checked for this back end."
        )
        return f"{unchecked} {unproven(task_backend)}"
    wanted = cuda_version(image, image_facts)
    built = version(image_facts.paddle_cuda) if image_facts is not None else ()
    if wanted and built and wanted[0] != built[0]:
        return (
            f"Paddle in the image is built for CUDA {text(built[:2])}, beside a toolkit of CUDA"
            f" {text(wanted[:2])}: custom operators that are compiled there may not load."
        )
    driver, runtime = version(host_facts.driver_version), version(host_facts.runtime_version)
    if wanted is None:
        return msg("The CUDA version that {image} needs is unknown.", image=image)
    if not driver and not runtime:
        return "The host does not say which driver it has."
    if runtime and wanted[:2] > runtime[:2]:
        return (
            f"The image's CUDA {text(wanted[:2])} is newer than the {text(runtime[:2])} of the"
            f" host's driver {host_facts.driver_version}: it runs by minor version compatibility,"
            " without what only the newer driver has."
            if wanted[0] == runtime[0]
            else f"The image's CUDA {text(wanted[:2])} runs under driver"
            f" {host_facts.driver_version} by its compatibility libraries, on data-centre cards"
            " alone."
        )
    return ""


def image_backend(image: str, facts: ImageFacts | None) -> str:
    """Return Paddle's word for the kind of device that an image is made for, or ""."""
    whole = image.partition("@")[0].lower()
    # The registry and the owner say nothing about what is inside.
    name = whole.rpartition("/")[2]
    for backend, pattern in _OTHERS:
        if pattern.search(name):
            return backend
    for backend, variables in _VARIABLES.items():
        if facts is not None and any(facts.env.get(variable) for variable in variables):
            return backend
    if _GPU.search(name):
        return "gpu"
    return "cpu" if _PLAIN_PADDLE.search(whole) else ""


def cuda_version(image: str, facts: ImageFacts | None) -> Version | None:
    """Return the CUDA toolkit in an image: as its variables say, or its name."""
    said = version(facts.env.get("CUDA_VERSION", "")) if facts is not None else ()
    if len(said) >= 2:
        return said
    name = image.partition("@")[0].lower()
    match = _CUDA.search(name) or _CUDA_IMAGE.search(name)
    return None if match is None else (int(match[1]), int(match[2]))


def paddle_version(image: str) -> str:
    """Return the version of Paddle that an image's tag names, as Paddle's own do; "" for others."""
    match = _PADDLE.search(image.partition("@")[0].lower())
    return match[1] if match else ""


def _paddle_fault(image: str, facts: ImageFacts | None, host: HostFacts) -> str:
    """Return why the Paddle that was found in an image cannot use a host's driver; the wheel
    brings its own CUDA libraries, whatever toolkit lies beside it."""
    if facts is None or not facts.paddle:
        return ""
    if facts.paddle_cuda == NO_CUDA:
        return f"Paddle {facts.paddle} in the image {image} is built without CUDA."
    built = version(facts.paddle_cuda)
    if len(built) < 2 or runs(built, version(host.driver_version), version(host.runtime_version)):
        return ""
    return (
        f"Paddle {facts.paddle} in the image {image} is built for CUDA {_with_driver(built)};"
        f" {_driver_words(host)}."
    )


def _with_driver(wanted: Version) -> str:
    first = first_driver(wanted)
    return text(wanted[:2]) + (f" (driver {text(first)} or later)" if first else "")


def _cuda_fault(image: str, facts: ImageFacts | None, host: HostFacts) -> str:
    driver, runtime = version(host.driver_version), version(host.runtime_version)
    demand = "" if facts is None else facts.env.get("NVIDIA_REQUIRE_CUDA", "")
    if facts is not None and facts.env.get("NVIDIA_DISABLE_REQUIRE", "") not in ("", "0", "false"):
        demand = ""
    if demand:
        if _demand(demand, driver, runtime) is not Held.NO:
            return ""
        least = re.search(r"cuda>=([\d.]+)", demand)
        wants = f"CUDA {least[1]}" if least else "another driver"
        return f"The image {image} asks for {wants}; {_driver_words(host)}."
    wanted = cuda_version(image, facts)
    if wanted is None or runs(wanted, driver, runtime):
        return ""
    return msg(
        "The image {image} needs CUDA {version}; {driver_text}.",
        image=image,
        version=_with_driver(wanted),
        driver_text=_driver_words(host),
    )


def _demand(text: str, driver: Version, runtime: Version) -> Held:
    """Return whether one of the alternatives holds; the toolkit's rule for NVIDIA_REQUIRE_CUDA."""
    best = Held.NO
    for alternative in text.split()[:256]:
        conditions = [
            _condition(condition, driver, runtime) for condition in alternative.split(",")
        ]
        best = max(best, min(conditions, key=lambda held: held.value), key=lambda held: held.value)
    return best


def _condition(text: str, driver: Version, runtime: Version) -> Held:
    match = _CONDITION.fullmatch(text)
    have = {"cuda": runtime, "driver": driver}.get(match[1], ()) if match else ()
    wanted = version(match[3]) if match else ()
    if match is None or not have or not wanted:
        return Held.PERHAPS
    # As the toolkit does: as many parts are compared as the demand names.
    have, sign = have[: len(wanted)], match[2]
    holds = {
        ">=": have >= wanted,
        "<=": have <= wanted,
        "=": have == wanted,
        "!=": have != wanted,
        "<": have < wanted,
        ">": have > wanted,
    }[sign]
    return Held.YES if holds else Held.NO


def _driver_words(host: HostFacts) -> str:
    offers = f", which offers CUDA {host.runtime_version}" if host.runtime_version else ""
    return f"the host has driver {host.driver_version or 'of unknown version'}{offers}"
