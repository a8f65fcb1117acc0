"""What NVIDIA's XID numbers mean, in words, and on which side the fault is.

From NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors): the names of the errors
and the side on which its immediate action lies, the program's or the device's.
"""

from __future__ import annotations

from typing import Literal

from gpuconsole.core.util.lazy_dataclass import dataclass

Side = Literal["hardware", "program", "driver"]


@dataclass(frozen=True, slots=True)
class Xid:
    """One number: what happened, and on which side to look first."""

    number: int
    words: str
    side: Side
    advice: str


_RESET = "Stop what runs there and reset the device; if it comes back, have it checked."
_PROGRAM = "Look at the program first: another one on the same device usually runs well."
_DRIVER = "Restart the program; if it comes back, update the driver or ask NVIDIA."

_TABLE: tuple[tuple[int, str, Side, str], ...] = (
    (8, "the device stopped processing", "driver", _DRIVER),
    (13, "a kernel failed on the device (graphics engine exception)", "program", _PROGRAM),
    (31, "a program touched memory that is not its own (MMU fault)", "program", _PROGRAM),
    (32, "commands to the device were damaged on their way", "hardware",
     "Reseat the card and look at the PCIe link; it can also be the driver."),
    (38, "the driver's firmware failed", "driver", _DRIVER),
    (43, "a program's work on the device was stopped", "program", _PROGRAM),
    (44, "the device's work was reset after a fault", "driver", _DRIVER),
    (45, "work was cleaned up because the program ended", "program",
     "Look for what ended the program; this alone is no fault."),
    (46, "the device stopped processing", "hardware", _RESET),
    (48, "an uncorrectable memory error (double bit ECC)", "hardware", _RESET),
    (61, "the device's own controller stopped", "hardware", _RESET),
    (62, "the device's own controller halted", "hardware", _RESET),
    (63, "a memory row was marked for replacement", "hardware",
     "Reset the device when it is free, so that the spare row is used."),
    (64, "a bad memory row could not be replaced", "hardware",
     "Reset the device; if it comes back it needs repair."),
    (68, "the video decoder failed", "driver", _DRIVER),
    (69, "a wrong command for the device (graphics class error)", "program", _PROGRAM),
    (74, "an NVLink error", "hardware",
     "Look at the bridge or the switch; jobs over several devices suffer first."),
    (79, "the device fell off the bus", "hardware",
     "Reboot the host; if it comes back look at power, cooling and the slot."),
    (92, "many memory errors that could be corrected", "hardware",
     "Watch it; a growing number ends in one that cannot be corrected."),
    (94, "a memory error that hit one program alone (contained)", "hardware",
     "Restart the program, and reset the device when it is free."),
    (95, "a memory error that may have hit every program (uncontained)", "hardware", _RESET),
    (109, "a program's context timed out", "program", _PROGRAM),
    (119, "the device's system processor does not answer", "hardware", _RESET),
    (120, "the device's system processor failed", "hardware", _RESET),
    (140, "memory errors that the device could not recover from", "hardware", _RESET),
    (143, "the device could not be initialised", "hardware", _RESET),
    (154, "the device says what it needs to recover", "hardware",
     "The kernel log names the step; most often a reset of the device."),
)  # fmt: skip

XIDS = {number: Xid(number, words, side, advice) for number, words, side, advice in _TABLE}


def xid_of(number: int) -> Xid:
    """Return what a number means; one that is not known says so."""
    return XIDS.get(number) or Xid(
        number, "an error that is not in the list", "driver", "Look it up in NVIDIA's Xid list."
    )
