"""Cold start: memory from a task file's model name, before there is a script to read.

Transformer, float32, Adam: parameters P need P x (1 + 1 gradient + 2 states), plus the largest
gradient; activations per sample are L x 4 x (17.5 S h + 2.25 a S^2) bytes for L layers of width h
with a heads at sequence length S (measured within 0.1 % on an encoder layer of Paddle 3.3.1),
and 3 S V floats where the loss runs over the vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from gpuconsole.core.estimate import BatchSource, Estimate, Unknown
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Task
from gpuconsole.core.units import MIB
from gpuconsole.preflight.footprint import Footprint, as_memory
from gpuconsole.preflight.scan.neural import LONG_SEQUENCE
from gpuconsole.preflight.variant import AS_WRITTEN, Variant

FRAGMENTATION = 1.05
"""Reserve over tensors that the allocator simulation gives for encoders and ResNets."""


@lru_cache(maxsize=1)
def known_models() -> dict[str, dict[str, Any]]:
    """Return the table of models by name."""
    text = resources.files("gpuconsole").joinpath("data/models.json").read_text("utf-8")
    table: dict[str, dict[str, Any]] = json.loads(text)["models"]
    return table


def find_model(name: str) -> dict[str, Any] | None:
    """Return a model's row; `_` and `-`, case, and a size-less name are forgiven."""
    key = name.strip().lower().replace("_", "-")
    table = known_models()
    return next(
        (
            table[one]
            for one in (key, f"{key}-base", key.removesuffix("-zh"), key.removesuffix("-uncased"))
            if one in table
        ),
        None,
    )


@dataclass(frozen=True, slots=True)
class Formula:
    """The formula tier for one task."""

    task: Task

    @property
    def sequence(self) -> int:
        """Tokens per sample."""
        row = find_model(self.task.model_name) or {}
        return self.task.sequence_length or int(row.get("sequence", 512))

    def sizes(self) -> tuple[int, int, int, int] | None:
        """Return bytes of parameters, of the largest one, per sample, and of one input sample."""
        row = find_model(self.task.model_name)
        if row is None:
            return None
        parameters = int(row["parameters"] * 1e6) * 4
        if row["kind"] != "transformer":
            return (parameters, int(row["largest"] * 1e6) * 4, int(row["activation_mib"] * MIB),
                    3 * 224 * 224 * 4)  # fmt: skip
        hidden = self.task.hidden_size or int(row["hidden"])
        length, layers, heads = self.sequence, int(row["layers"]), int(row["heads"])
        sample = layers * 4 * (17.5 * length * hidden + 2.25 * heads * length**2)
        if row.get("head") == "vocabulary":
            sample += 3 * length * row["vocabulary"] * 4
        return parameters, int(row["vocabulary"]) * hidden * 4, int(sample), length * 8

    def footprint(self, batch: int) -> Footprint | None:
        """Return the memory at a batch size."""
        sizes = self.sizes()
        if sizes is None:
            return None
        parameters, largest, sample, inputs = (one / MIB for one in sizes)
        training = self.task.kind != "inference"
        parts = {
            "parameters": parameters,
            "gradients": parameters + largest if training else 0.0,
            "optimizer": 2 * parameters if training else 0.0,
            "activations": batch * sample if training else batch * sample / 8,
            "inputs": batch * inputs * 3,
            "workspace": 0.0,
        }
        tensors = sum(parts.values())
        return Footprint(parts, tensors, tensors * FRAGMENTATION)

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        """Return reserved MiB as a function of the batch size."""

        def reserved(batch: int) -> float | None:
            found = self.footprint(batch)
            return None if found is None else found.reserved_mib

        return reserved

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        """Estimate at a batch size (the task's own when None)."""
        task = self.task
        batch = batch_size or task.batch_size
        why = self._missing(batch)
        found = self.footprint(batch) if batch and not why else None
        memory = None if found is None else as_memory(found, backend, "formula", context_mib)
        return Estimate(
            script=task.script,
            batch_size=batch,
            batch_source=BatchSource("", 0, "task") if batch else None,
            backend=backend,
            tier="formula" if memory is not None else "unknown",
            coverage=0.0,
            memory=memory,
            unknowns=(Unknown("", 0, why),) if why else (),
            flops_per_step=self._flops(batch or 0),
            flags=flags(task),
            notes=self._notes(batch),
        )

    def _missing(self, batch: int | None) -> str:
        name = self.task.model_name
        if find_model(name) is None:
            some = ", ".join(sorted(known_models())[:6])
            return (
                f"the model {name!r} is not in the table ({some}, …): name a script to read instead"
                if name
                else "the task names neither a script nor a model"
            )
        return "" if batch else "the task gives no batch size (batch_size_per_gpu)"

    def _flops(self, batch: int) -> float:
        row = find_model(self.task.model_name)
        if row is None:
            return 0.0
        if row["kind"] != "transformer":
            return 3.0 * float(row["gflops"]) * 1e9 * batch
        hidden, length = int(row["hidden"]), self.sequence
        layer = 24.0 * length * hidden**2 + 4.0 * length**2 * hidden
        return 3.0 * batch * int(row["layers"]) * layer

    def _notes(self, batch: int | None) -> tuple[str, ...]:
        notes = ["Method: a formula over the model's layers, width and heads; no script was read."]
        row = find_model(self.task.model_name)
        hidden = self.task.hidden_size or (row or {}).get("hidden")
        if hidden and batch:
            reference = batch * self.sequence * int(hidden) * 4 * 1.5 / MIB
            notes.append(
                f"For reference only: batch x sequence x hidden x 4 bytes x 1.5 gives "
                f"{reference:.0f} MiB; it counts neither layers nor parameters, and does not"
                " decide."
            )
        return tuple(notes)


def flags(task: Task) -> tuple[str, ...]:
    """Return the flags that a task file alone raises."""
    found = []
    if task.distributed_strategy and (task.devices or 0) > 1:
        found.append("distributed")
    if task.sequence_length is not None and task.sequence_length > LONG_SEQUENCE:
        found.append("long-sequence")
    return tuple(found)
