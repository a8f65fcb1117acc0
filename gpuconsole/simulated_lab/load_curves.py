"""How a simulated device moves: a pure function of (seed, time) and of the loads upon it.

A load is a stretch of work with a mean utilisation, a wave around it and a memory plateau.
Temperature is utilisation behind a first-order lag, in closed form, so that any moment can be
computed without the moments before it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.simulated_lab.catalogue import Card, DeviceSite

HEAT_LAG_S = 40.0
"""Time constant of a card's temperature; a heat sink settles in two to three minutes."""
_RAMP_S = 6.0
_BLOCK_MIB = 2.0
"""Memory grows in blocks, as an allocator asks for it."""


@dataclass(frozen=True, slots=True)
class Load:
    """Work on one device from `start` to `end`, in lab seconds."""

    start: float
    end: float
    mean: float
    """Utilisation in percent."""
    amplitude: float = 0.0
    period_s: float = 30.0
    phase: float = 0.0
    memory_mib: float = 0.0
    fill_s: float = 20.0
    """Time until the memory plateau is reached."""
    pid: int = 0
    user: str = ""
    command: str = ""
    container_id: str = ""

    def memory_at(self, now: float) -> float:
        """Return the memory held at `now`, in MiB."""
        if not self.start <= now < self.end:
            return 0.0
        filled = min(1.0, 0.3 + 0.7 * (now - self.start) / self.fill_s) if self.fill_s else 1.0
        return math.floor(self.memory_mib * filled / _BLOCK_MIB) * _BLOCK_MIB

    def utilization_at(self, now: float) -> float:
        """Return this load's share of the utilisation at `now`, in percent."""
        if not self.start <= now < self.end:
            return 0.0
        age = now - self.start
        wave = math.sin(math.tau * age / self.period_s + self.phase)
        flutter = math.sin(age * 2.39 + self.phase * 7.0)
        return (self.mean + self.amplitude * (0.75 * wave + 0.25 * flutter)) * min(
            1.0, age / _RAMP_S
        )

    def heat_at(self, now: float) -> float:
        """Return the lagged utilisation that temperature follows, in percent."""
        if now <= self.start or self.mean <= 0.0:
            return 0.0
        inside = min(now, self.end) - self.start
        warmed = self.mean * (1.0 - math.exp(-inside / HEAT_LAG_S))
        if now > self.end:
            return warmed * math.exp((self.end - now) / HEAT_LAG_S)
        turn = math.tau * HEAT_LAG_S / self.period_s
        lag = math.atan(turn)
        ripple = 0.75 * self.amplitude / math.hypot(1.0, turn)
        angle = math.tau * inside / self.period_s + self.phase
        return warmed + ripple * math.sin(angle - lag) * min(1.0, inside / HEAT_LAG_S)


@dataclass(frozen=True, slots=True)
class Reading:
    """One moment of a device."""

    utilization: float
    temperature_c: float
    power_w: float
    sm_clock_mhz: float
    throttle: tuple[str, ...]


_THROTTLE_C = 83.0
_HOT_FULL_C = 96.0
"""Where a card with a blocked fan would settle; throttling begins before."""


def read(site: DeviceSite, loads: Sequence[Load], now: float) -> Reading:
    """Compute a device's reading from its loads, ended ones (still warm) among them."""
    card = site.card
    utilization = min(100.0, max(0.0, sum(load.utilization_at(now) for load in loads)))
    heat = min(100.0, max(0.0, sum(load.heat_at(now) for load in loads)))
    full = _HOT_FULL_C if site.role == "hot" else card.full_c
    temperature = card.idle_c + (full - card.idle_c) * heat / 100.0
    clock = card.sm_clock_mhz if utilization > 1.0 else card.sm_clock_mhz * 0.15
    power = card.idle_w + (card.limit_w - card.idle_w) * 0.94 * utilization / 100.0
    throttle: tuple[str, ...] = ()
    if temperature >= _THROTTLE_C:
        throttle = ("sw-thermal",)
        slow = max(0.6, 1.0 - (temperature - _THROTTLE_C) * 0.04)
        clock, power = clock * slow, power * slow
    elif utilization > 97.0:
        throttle = ("power-cap",)
    return Reading(
        round(utilization), round(temperature), round(power, 1), 15 * round(clock / 15), throttle
    )


# --- what others run ----------------------------------------------------------------------------

_USERS = ("wang", "li", "chen", "zhao", "sun", "zhou")
_TRAINING = (
    "python train_det.py --config ppyoloe.yml",
    "python -m paddle.distributed.launch pretrain.py",
    "python finetune.py --model ernie-3.0-base",
    "python tools/train.py -c rec_svtr.yml",
)
_SERVING = ("paddle_serving_server --port 9292", "python serve.py --model ocr_v4")
_DAYS_S = 86400.0


@dataclass(frozen=True, slots=True)
class Shift:
    """What a device does for others from `start` to `end`; `load` is None when it is idle."""

    start: float
    end: float
    load: Load | None


def shift_of(site: DeviceSite, seed: int, now: float) -> Shift:
    """Return the shift in which `now` lies. The roles:

    free (nothing but the queue's jobs), train (one long run after another), mixed (runs and
    pauses), serve (bursts all day), notebook (an idle process that holds 642 MiB for days),
    hot (training on a device with a blocked fan), starved (a full card that waits for its data),
    leased (another console's job).
    """
    if site.role in ("free", "leased"):
        return Shift(-math.inf, math.inf, None)
    if site.role == "notebook":
        return Shift(-math.inf, math.inf, _notebook(random.Random(f"note:{seed}:{site.uuid}")))
    if site.role == "starved":
        return Shift(
            -math.inf, math.inf, _starved(random.Random(f"starved:{seed}:{site.uuid}"), site)
        )
    fixed = random.Random(f"device:{seed}:{site.uuid}")
    length = fixed.uniform(240.0, 900.0) if site.role == "mixed" else fixed.uniform(3000.0, 9000.0)
    # The lab was at work before the console opened: no shift begins at time zero.
    offset = length * fixed.uniform(0.2, 0.6)
    number = math.floor((now + offset) / length)
    start = number * length - offset
    chance = random.Random(f"shift:{seed}:{site.uuid}:{number}")
    if site.role == "mixed" and chance.random() < 0.45:
        return Shift(start, start + length, None)
    load = _serving if site.role == "serve" else _training
    pause = 0.0 if site.role == "serve" else chance.uniform(10.0, 60.0)
    return Shift(start, start + length, load(chance, site.card, start, start + length - pause))


def _training(chance: random.Random, card: Card, start: float, end: float) -> Load:
    return Load(
        start=start,
        end=end,
        mean=chance.uniform(80.0, 93.0),
        amplitude=chance.uniform(2.0, 12.0),
        period_s=chance.uniform(20.0, 90.0),
        phase=chance.uniform(0.0, math.tau),
        memory_mib=card.memory_mib * chance.uniform(0.45, 0.88),
        pid=chance.randint(4000, 400000),
        user=chance.choice(_USERS),
        command=chance.choice(_TRAINING),
    )


def _serving(chance: random.Random, card: Card, start: float, end: float) -> Load:
    return Load(
        start=start,
        end=end,
        mean=chance.uniform(18.0, 40.0),
        amplitude=chance.uniform(12.0, 18.0),
        period_s=chance.uniform(40.0, 200.0),
        phase=chance.uniform(0.0, math.tau),
        memory_mib=card.memory_mib * chance.uniform(0.2, 0.45),
        pid=chance.randint(4000, 400000),
        user="serving",
        command=chance.choice(_SERVING),
    )


def _starved(chance: random.Random, site: DeviceSite) -> Load:
    return Load(
        start=-0.6 * _DAYS_S,
        end=math.inf,
        mean=11.0,
        amplitude=6.0,
        period_s=37.0,
        memory_mib=site.card.memory_mib * 0.91,
        pid=chance.randint(4000, 400000),
        user=chance.choice(_USERS),
        command="python train_seg.py --workers 0",
    )


def _notebook(chance: random.Random) -> Load:
    return Load(
        start=-4.2 * _DAYS_S,
        end=math.inf,
        mean=0.0,
        memory_mib=642.0,
        pid=chance.randint(4000, 400000),
        user=chance.choice(_USERS),
        command="python -m ipykernel_launcher",
    )
