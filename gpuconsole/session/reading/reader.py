"""Asking about scripts: the process that reads them, its limits, and what ends it."""

from __future__ import annotations

import threading
from typing import TypeVar

from gpuconsole import errors
from gpuconsole.core.estimate import Unknown
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError, RefusedError
from gpuconsole.session.reading import records
from gpuconsole.session.reading.process import Child, EndedError, Limits
from gpuconsole.session.reading.questions import Question

Answer = TypeVar("Answer")
Own = TypeVar("Own", bound="Reader")

_ERRORS = {kind.__name__: kind for kind in (errors.UsageError, errors.DocumentError,
                                            errors.RefusedError)}  # fmt: skip


class Ticket:
    """One question's right to be answered."""

    stopped = False


class Reader:
    """Asks about scripts, one question at a time. Use in a `with` block, or `close` it."""

    def __init__(self, limits: Limits | None = None, *, copied: bool = False) -> None:
        """Start nothing yet: that is done when it is needed, or by `warm`.

        `copied` is for a command, which does little else: its process may be a copy of the
        command's own, which takes half the time to start.
        """
        self._limits = limits or Limits()
        self._copied = copied
        self._child: Child | None = None
        self._turn = threading.Lock()
        """Held while a question is answered."""
        self._guard = threading.Lock()
        """Held while what follows changes."""
        self._asked: Ticket | None = None
        self._closed = False

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def warm(self) -> None:
        """Start the process, so that the first answer need not wait for that."""
        with self._guard:
            self._living()

    def ask(self, question: Question[Answer]) -> Answer:
        """Answer a question; its ConsoleErrors are raised here."""
        return self.answer(question, Ticket())

    def close(self) -> None:
        """End the process, whatever it does."""
        with self._guard:
            self._closed = True
            if self._asked is not None and self._child is not None:
                self._child.kill()
        with self._turn, self._guard:
            self._drop()

    def answer(self, question: Question[Answer], ticket: Ticket) -> Answer:
        """Answer a question that `stop` can end."""
        with self._turn:
            with self._guard:
                child = self._living()
                if ticket.stopped or child is None:
                    raise RefusedError("Not read", "The question was taken back.")
                self._asked = ticket
            try:
                return self._understood(question, child.ask(question))
            except EndedError as ended:
                file, line = child.place()
                why = clean(f"following the script {ended.why}", 300)
                return question.unread(Unknown(file, line, why))
            finally:
                with self._guard:
                    self._asked = None
                if child.is_spent:
                    self.warm()

    def stop(self, ticket: Ticket) -> None:
        """End the answering of a question, wherever it is."""
        with self._guard:
            ticket.stopped = True
            if self._asked is ticket and self._child is not None:
                self._child.kill()

    def _living(self) -> Child | None:
        """Return a process that can be asked; None once this is closed."""
        if self._child is not None and self._child.is_spent:
            self._drop()
        if self._child is None and not self._closed:
            self._child = Child(self._limits, copied=self._copied)
        return self._child

    def _drop(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _understood(self, question: Question[Answer], said: dict[str, object]) -> Answer:
        """Return the answer in what a process said, or raise the error in it."""
        if "error" in said:
            kind, title, message, hint = records.read(tuple[str, str, str, str], said["error"])
            raise _ERRORS.get(kind, ConsoleError)(title, message, hint)
        if "ended" in said:
            memory = f"took more than {self._limits.memory_mib} MiB of memory"
            failed = f"is more than the analysis can do ({said['ended']})"
            raise EndedError(memory if said["ended"] == "memory" else failed)
        try:
            answer: Answer = records.read(question.answers, said["answer"])
        except (KeyError, ValueError):
            raise EndedError("made an answer that is none") from None
        return answer
