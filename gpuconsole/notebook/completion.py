"""What Tab offers behind a magic: its words, and the jobs of the session that is open."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, ShellComplete

from gpuconsole.notebook.kernel_session import Desk


def words_for(command: click.Command, room: object, before: str, word: str) -> list[str]:
    """Return what may stand at the end of a line: `before` is all of it, `word` what is typed of
    the last word, or ""."""
    said = before.split()[1:]
    if word and said and said[-1] == word:
        said.pop()
    items = ShellComplete(command, {"obj": room}, str(command.name), "").get_completions(said, word)
    return [item.value for item in items if item.type == "plain"]


def job_words(desk: Desk, beginning: str) -> list[CompletionItem]:
    """Offer ids and names of jobs, latest first; none where no session is open."""
    jobs = desk.jobs_known()
    words = [word for job in reversed(jobs) for word in (job.id, job.task.name)]
    return [CompletionItem(word) for word in dict.fromkeys(words) if word.startswith(beginning)]
