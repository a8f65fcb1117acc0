"""Cold start: memory from a task file's model name, before there is a script to read.

The model is built from its published sizes (`data/models.json`, or the vision models) and followed
through two training steps like a script of its own: AdamW in float32, a classifier of texts, the
vocabulary for models that generate, pictures of 224 x 224. The range is wider than a script's, for
what the job will do is assumed. The rule of thumb that task files know is shown for reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from pathlib import Path

from gpuconsole.core.estimate import BatchSource, Estimate, Memory, Unknown
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Task
from gpuconsole.core.services import SERVICE
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.libraries.paddlenlp import find_model, known_models
from gpuconsole.preflight.interpreter.paddle.nn.namespace import LONG_SEQUENCE
from gpuconsole.preflight.interpreter.paddle.source_modules import names_in
from gpuconsole.preflight.memory.backends import unproven
from gpuconsole.preflight.memory.footprint import MARGINS
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.tiers.static import Analysis, analyse

TOKENS = 128
"""Tokens a sample where the task does not say."""


@lru_cache(maxsize=8)
def _followed(kind: str, args: tuple[str, ...]) -> Analysis:
    """Return the analysis of a built-in script."""
    path = resources.files("gpuconsole").joinpath(f"data/paddle/tasks/{kind}.py")
    return analyse(Path(str(path)), args)


def vision_model(name: str) -> str | None:
    """Return the maker of a vision model; `-` and case are forgiven."""
    key = name.strip().lower().replace("-", "_")
    return key if key in names_in("vision") and key == key.lower() else None


@dataclass(frozen=True, slots=True)
class Formula:
    """The formula tier for one task."""

    task: Task

    @property
    def sequence(self) -> int:
        """Tokens per sample."""
        return self.task.sequence_length or TOKENS

    def analysis(self) -> Analysis | None:
        """Return the model's own analysis, or None for a model that is not in the tables."""
        name = self.task.model_name
        more = ("--inference",) if self.task.kind in ("inference", SERVICE) else ()
        row = find_model(name) if name else None
        if row is not None:
            head = "classes" if row["kind"] == "encoder" else "vocabulary"
            args = ("--model", name, "--head", head, "--length", str(self.sequence), *more)
            return _followed("language", args)
        vision = vision_model(name)
        return None if vision is None else _followed("vision", ("--model", vision, *more))

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        """Return reserved MiB as a function of the batch size."""
        analysis = self.analysis()
        return (lambda batch: None) if analysis is None else analysis.reserved_at(backend)

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        """Estimate at a batch size (the task's own when None)."""
        batch = batch_size or self.task.batch_size
        analysis = self.analysis()
        if analysis is None or not batch:
            return self._unknown(batch, backend)
        result = analysis.estimate(batch, backend=backend, context_mib=context_mib, variant=variant)
        memory = None if result.memory is None else with_range(result.memory)
        return replace(
            result,
            script=self.task.script,
            batch_size=batch,
            batch_source=BatchSource("", 0, "task"),
            tier="formula" if memory is not None else "unknown",
            coverage=0.0,
            memory=memory,
            unknowns=tuple(Unknown("", 0, unknown.reason) for unknown in result.unknowns),
            asks=(),
            flags=tuple(sorted({*result.flags, *flags(self.task)})),
            notes=self._notes(batch, backend),
        )

    def _unknown(self, batch: int | None, backend: Backend) -> Estimate:
        name = self.task.model_name
        why = "the task gives no batch size (batch_size_per_gpu)"
        if self.analysis() is None:
            some = ", ".join(sorted(known_models())[:6])
            why = (
                f"the model {name!r} is not in the table ({some}, …): name a script to read instead"
                if name
                else "the task names neither a script nor a model"
            )
        return Estimate(
            script=self.task.script,
            batch_size=batch,
            batch_source=BatchSource("", 0, "task") if batch else None,
            backend=backend,
            tier="unknown",
            coverage=0.0,
            memory=None,
            unknowns=(Unknown("", 0, why),),
            flags=flags(self.task),
            notes=self._notes(batch, backend),
        )

    def _notes(self, batch: int | None, backend: Backend) -> tuple[str, ...]:
        notes = ["Method: a model of the published sizes, followed through two training steps with"
                 " AdamW in float32; no script was read."]  # fmt: skip
        row = find_model(self.task.model_name) if self.task.model_name else None
        hidden = self.task.hidden_size or (row or {}).get("hidden")
        if hidden and batch:
            reference = batch * self.sequence * int(hidden) * 4 * 1.5 / MIB
            notes.append(
                msg(
                    "For reference only: batch x sequence x hidden x 4 bytes x 1.5 gives "
                    "{size}; it counts neither layers nor parameters, and does not decide.",
                    size=f"{reference:.0f} MiB",
                )
            )
        return (*notes, *filter(None, [unproven(backend)]))


def with_range(memory: Memory) -> Memory:
    """Return the memory with the range of this tier."""
    margin = MARGINS["formula"] * memory.reserved_mib + memory.context_spread_mib
    return replace(
        memory,
        low_mib=max(0.0, memory.total_mib - margin),
        high_mib=memory.total_mib + margin,
    )


def flags(task: Task) -> tuple[str, ...]:
    """Return the flags that a task file alone raises."""
    names = []
    if task.distributed_strategy and (task.devices or 0) > 1:
        names.append("distributed")
    if task.sequence_length is not None and task.sequence_length > LONG_SEQUENCE:
        names.append("long-sequence")
    return tuple(names)
