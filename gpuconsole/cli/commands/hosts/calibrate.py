"""`calibrate`: what a process costs on a card, and how good predictions have been."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, said, say, show, table, tell
from gpuconsole.core.units import format_mib, iso_utc
from gpuconsole.core.wording import msg, name
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.core.devices.run_history import HostCalibration
    from gpuconsole.preflight.accuracy.reliability import Reliability
    from gpuconsole.session.session import Session


@click.command()
@click.argument("host", required=False, shell_complete=shell_completion.hosts)
@click.option("--device", type=click.IntRange(min=0), metavar="N", help="Which; else an idle one.")
@click.option("--image", metavar="IMAGE", help="Container image; else the host's default.")
@click.option(
    "--reliability", is_flag=True, help="Show how accurate past predictions were instead."
)
@common
def calibrate(host: str | None, device: int | None, image: str | None, reliability: bool) -> int:
    """Measure what a Paddle process costs on a host's card.

    Runs a container for some seconds on one idle device, which is leased during that time: a tiny
    tensor, a matrix product, a convolution forward and backward. What the process holds outside of
    Paddle's allocator is stored and replaces the assumed 600 MiB. Exit 1 when nothing could be
    measured.
    """
    if reliability:
        return _reliability()
    if not host:
        raise UsageError("No host", "Which host is to be calibrated?", "Name one of the inventory.")
    from gpuconsole.cli.sessions import drive

    async def work(session: Session) -> HostCalibration:
        return await session.calibrate(host, device, image or "", note)

    result = drive(work)
    if options().as_json:
        print_document(_document(result))
    else:
        _show(result)
    return 0 if result.context_mib is not None else 1


def _document(calibration: HostCalibration) -> dict[str, object]:
    return {
        "host": calibration.host,
        "device": calibration.device,
        "uuid": calibration.uuid,
        "driver": calibration.driver,
        "image": calibration.image,
        "paddle": calibration.paddle,
        "measured_at": iso_utc(calibration.at),
        "method": calibration.method,
        "context_mib": calibration.context_mib,
        "after_tensor_mib": calibration.first_mib,
        "after_matmul_mib": calibration.matmul_mib,
        "granularity_mib": calibration.granularity_mib,
        "workspace_mib": calibration.workspace_mib,
    }


def _show(calibration: HostCalibration) -> None:
    where = msg("{device} of {host}", device=calibration.device, host=calibration.host)
    tell(where + name(f", Paddle {calibration.paddle or '?'}, {calibration.image}"))
    if calibration.context_mib is None:
        tell(calibration.method)
        return
    rows = table("measured", "MiB", "meaning", right=("MiB",))
    for moment, size, meaning in (
        ("after a tensor", calibration.first_mib, "the process and its context"),
        ("after a matrix product", calibration.matmul_mib, "with the libraries for it"),
        (
            "after a convolution",
            calibration.context_mib,
            "with cuDNN: stored as this device's context",
        ),
        ("growth per small chunk", calibration.granularity_mib, "how the driver rounds 1.25 MiB"),
        ("workspace", calibration.workspace_mib, "what the convolution took besides its tensors"),
    ):
        rows.add_row(said(moment), "n/a" if size is None else f"{size:.1f}", said(meaning))
    show(rows)
    tell(msg("Context: {how_text}.", how_text=calibration.method))


def _reliability() -> int:
    from gpuconsole.core.util.user_dirs import state_folder
    from gpuconsole.preflight.accuracy.reliability import reliability
    from gpuconsole.session.estimate.history import recorded

    measured = reliability(recorded(state_folder(options().state)).observations)
    if options().as_json:
        print_document(_reliability_document(measured))
    else:
        _show_reliability(measured)
    return 0


def _reliability_document(reliability_: Reliability) -> dict[str, object]:
    return {
        "runs": reliability_.judged,
        "too_few": reliability_.too_few or None,
        "bins": [
            {
                "from": bin_.low,
                "to": bin_.high,
                "runs": bin_.runs,
                "ran_out": bin_.ran_out,
                "predicted": bin_.predicted,
                "observed": bin_.observed,
            }
            for bin_ in reliability_.bins
        ],
        "memory": [
            {
                "predicted_mib": pair.predicted_mib,
                "observed_mib": pair.observed_mib,
                "ran_out": pair.ran_out,
            }
            for pair in reliability_.pairs
        ],
    }


def _show_reliability(reliability_: Reliability) -> None:
    from gpuconsole.preflight.accuracy.reliability import BOTH, OK, OUT, scatter

    if reliability_.too_few:
        tell(reliability_.too_few)
    if reliability_.judged:
        rows = table("chance to run out", "predicted", "ran out", "of runs",
                     right=("predicted", "ran out", "of runs"))  # fmt: skip
        for bin_ in reliability_.bins:
            if bin_.runs:
                span = say(msg("{low} to {high}", low=f"{bin_.low:.0%}", high=f"{bin_.high:.0%}"))
                share = f"{bin_.observed:.0%}"
                counted = say(msg("{n} of {all}", n=bin_.ran_out, all=bin_.runs))
                rows.add_row(span, f"{bin_.predicted:.1%}", share, counted)
        show(rows)
    lines = scatter(reliability_.pairs)
    if lines:
        print()
        tell("memory: predicted across, observed up; on the diagonal both are equal")
        print("\n".join(lines))
        runs = len(reliability_.pairs)
        worst = max(reliability_.pairs, key=lambda pair: pair.observed_mib / pair.predicted_mib)
        tell(
            msg(
                "{ok} went well  {out} ran out (the truth is more)  {both} both; {n} runs",
                ok=OK, out=OUT, both=BOTH, n=runs,
            ),
            msg(
                "furthest above its prediction: {high} for {low}",
                high=format_mib(worst.observed_mib), low=format_mib(worst.predicted_mib),
            ),
        )  # fmt: skip
