"""How fast a model of device works for each class of job, from the device catalogue.

The time of one step is split into a part bound by matrix units, a part bound by memory bandwidth
and a part bound by the host, which no device shortens. A class says how large the parts are on the
reference device; another device shortens each part by the ratio of its nominal figures. So

    speed = 1 / (matrix x F_ref / F + bandwidth x B_ref / B + host)

Shares of the classes are assumptions of the kind that a profile shows, not measurements. A lab
file may give measured speeds, which win.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuconsole.core.device_catalogue import Catalogue, Spec
from gpuconsole.core.util.lazy_dataclass import dataclass

REFERENCE = "Tesla V100-SXM2-32GB"
"""Run times of a trace are taken as run times on this device."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """A kind of training, and what it is bound by on the reference device."""

    name: str
    matrix: float
    bandwidth: float
    host: float
    unlinked: float
    """Speed that is left on several devices of a host without fast links between them."""


CLASSES: Mapping[str, JobClass] = {
    job_class.name: job_class
    for job_class in (
        JobClass("vision", 0.45, 0.40, 0.15, 0.85),
        JobClass("language", 0.65, 0.25, 0.10, 0.70),
        JobClass("recommendation", 0.10, 0.50, 0.40, 0.75),
        JobClass("control", 0.10, 0.20, 0.70, 0.90),
    )
}
OVER_HOSTS = 0.8
"""Relative speed of a gang with devices in several hosts."""
SOFTWARE: Mapping[str, float] = {"gpu": 1.0, "dcu": 0.7, "xpu": 0.5, "npu": 0.4}
"""Share of the nominal figures that a back end reaches, held against CUDA. Placeholders: with them
an Ascend 910 has 0.7 to 0.8 of a V100, the middle of what is reported. Measured figures belong
into the lab file."""
UNKNOWN = 0.7
"""Relative speed of a model without published figures."""


def speeds(spec: Spec | None, backend: str) -> dict[str, float]:
    """Return the speed of a model for each class of job; 1 is the reference device."""
    return {name: _speed(job_class, spec, backend) for name, job_class in CLASSES.items()}


def is_known(spec: Spec | None) -> bool:
    """Tell whether the catalogue has the figures that a speed needs."""
    return spec is not None and bool(spec.rate_tflops or spec.bandwidth_gb_s)


def is_linked(spec: Spec | None) -> bool:
    """Tell whether all devices of a host of this model reach each other by fast links.

    A bridge joins two cards, so it does not count.
    """
    links = "" if spec is None else spec.interconnect
    return links.startswith(("NVLink", "HCCS", "XPULink", "Infinity")) and "bridge" not in links


def _speed(job_class: JobClass, spec: Spec | None, backend: str) -> float:
    if spec is None or not is_known(spec):
        return UNKNOWN
    reference = Catalogue.load().lookup(REFERENCE)
    assert reference is not None
    matrix = _ratio(reference.rate_tflops, spec.rate_tflops)
    bandwidth = _ratio(reference.bandwidth_gb_s, spec.bandwidth_gb_s)
    # If one figure is missing the other is used for both.
    matrix, bandwidth = matrix or bandwidth or 1.0, bandwidth or matrix or 1.0
    on_device = job_class.matrix * matrix + job_class.bandwidth * bandwidth
    return 1.0 / (on_device / SOFTWARE.get(backend, 0.5) + job_class.host)


def _ratio(reference: float | None, own: float | None) -> float | None:
    return reference / own if reference and own else None
