"""Hosts that cannot start jobs: their faults are counted, and those with several in a row are set
aside, as a cluster drains a broken node.

It is a circuit breaker for each host, and for each image on a host where only that cannot be
fetched. `set_aside_after` faults in a row open it: no job is placed there for a pause that grows
with each further fault. After the pause one job is let through; if it starts the host is back, and
if not the next pause begins. Everything is in the journal, so it holds for every console and after
a restart.

No job is lost to it: one that could not start goes back to its place in the queue. Only a fault
that follows the job from host to host, while others start there, fails it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from gpuconsole.core.devices.host_faults import FaultStreak, Streaks, pause_s
from gpuconsole.core.fleet import Host
from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.core.text import clean
from gpuconsole.core.util.human_time import clock_words
from gpuconsole.core.wording import msg
from gpuconsole.errors import Blame, ConsoleError
from gpuconsole.placement.model import Shun
from gpuconsole.session.context import Context
from gpuconsole.state import Journal

JITTER = 0.2
"""A pause is longer by up to this share: hosts set aside together do not return together."""
KEPT_JOBS = 8
"""The latest jobs of a streak that are named."""
MOST_HOSTS = 3
"""A job that could not start on so many hosts, or on all that fit it, is at fault itself."""
FORGET_S = 3600.0
"""Too few faults to set a host aside say nothing any more after so long."""
OTHERS_FIRST_S = 30.0
"""For so long after a pause the trial of a host is a job that has not failed, if one waits."""
TRIES, PATIENCE_S = 10, 86400.0
"""A job that could not start anywhere fails at last after so many tries over so long a time."""


class HostFaults:
    """Counts what hosts could not start. `fitting` returns the hosts that could run a job, were
    they free and well."""

    def __init__(self, context: Context, fitting: Callable[[Job], Collection[str]]) -> None:
        self._context = context
        self._fitting = fitting

    def note(self, epoch: int, job: Job, host: str, error: ConsoleError) -> str:
        """Count a fault of a host that ended the latest attempt of a job. Return why the job fails
        because of it; "" if it waits for a host."""
        if error.blame in (Blame.HOST, Blame.IMAGE):
            image = self._image(job, host) if error.blame is Blame.IMAGE else ""
            self._count(epoch, job, host, image, error)
        images = {name: self._image(job, name) for name in tried_hosts(job)}
        fits = frozenset(self._fitting(job))
        now = self._context.clock.now()
        return verdict(job, error.blame, self._context.journal.streaks(), images, fits, now)

    def started(self, epoch: int, job: Job) -> None:
        """End the streaks of the hosts on which a job has started."""
        journal = self._context.journal
        streaks = journal.streaks()
        hosts = () if job.attempt is None else [part.host for part in job.attempt.parts]
        for host in hosts:
            for image in ("", self._image(job, host)):
                streak = streaks.get((host, image))
                if streak is not None:
                    message = msg("{host} takes jobs again", host=host) if streak.set_aside else ""
                    journal.end_streak(host, image, message, epoch=epoch)

    def admits(self, epoch: int, job: Job, hosts: Iterable[str]) -> bool:
        """Whether a job may start on hosts now. Where one was set aside and its pause is over, the
        job becomes its trial, and is the only one."""
        journal, now = self._context.journal, self._context.clock.now()
        streaks = journal.streaks()
        concerned = [
            streak
            for host in hosts
            for image in ("", self._image(job, host))
            if (streak := streaks.get((host, image))) is not None and streak.set_aside
        ]
        if any(is_closed(streak, journal, now) for streak in concerned):
            return False
        for streak in concerned:
            journal.save_streak(replace(streak, trial=job.id), epoch=epoch)
        return True

    def _count(self, epoch: int, job: Job, host: str, image: str, error: ConsoleError) -> None:
        journal, now = self._context.journal, self._context.clock.now()
        before = journal.streaks().get((host, image))
        if before is None or (not before.set_aside and now - before.last_at >= FORGET_S):
            before = FaultStreak(host, image, since=now)
        after = next_streak(before, job.id, error, now)
        # A pull has been tried several times by then.
        needed = 1 if image else self._context.settings.set_aside_after
        message = ""
        # Those that were on their way when it was set aside make the pause no longer.
        if after.count >= needed and after.until <= now:
            pause = pause_s(after.pauses + 1) * (1.0 + JITTER * self._context.chance())
            after = replace(after, pauses=after.pauses + 1, until=now + pause)
            message = f"{host}: {after.words(now)}"
        journal.save_streak(after, message, epoch=epoch)

    def _image(self, job: Job, host: str) -> str:
        return job.task.image or self._context.default_image(host)


def could_not_start(said: str, host: str) -> ConsoleError:
    """Return the error of a container that its engine could not start, by what it says of that."""
    # The Docker SDK is not needed to look at a fleet.
    from gpuconsole.remote.docker.errors import translated

    error = translated(said, host, "starting the container")
    error.host = host
    return error


def next_streak(before: FaultStreak, job: str, error: ConsoleError, now: float) -> FaultStreak:
    """Return a streak with one more fault."""
    others = tuple(each for each in before.jobs if each != job)
    return replace(
        before,
        count=before.count + 1,
        jobs=(*others, job)[-KEPT_JOBS:],
        last_at=now,
        title=clean(error.title, 100),
        message=clean(error.message, 1000),
        hint=clean(error.hint, 500),
        trial="",
    )


def is_closed(streak: FaultStreak, journal: Journal, now: float) -> bool:
    """Whether no job may start because of a streak: its pause lasts, or its trial is not over."""
    if streak.until > now:
        return True
    trial = journal.job(streak.trial) if streak.set_aside and streak.trial else None
    if trial is None or trial.attempt is None or not trial.state.active:
        return False
    there = any(part.host == streak.host for part in trial.attempt.parts)
    return there and trial.attempt.started_at is None


def faults_of(job: Job) -> list[Attempt]:
    """Return the attempts that hosts could not start since the job last joined the queue."""
    since = job.submitted_at if job.queued_at is None else job.queued_at
    return [
        attempt
        for attempt in job.attempts
        if attempt.at_fault and (attempt.ended_at or 0.0) >= since
    ]


def tried_hosts(job: Job) -> list[str]:
    """Return the hosts that could not start a job since it last joined the queue."""
    return list(dict.fromkeys(attempt.at_fault for attempt in faults_of(job)))


def shunned(job: Job, failing: Collection[str], now: float) -> dict[str, Shun]:
    """Return the hosts that could not start a job, each until it is tried there again: soon where
    the host itself is at fault, later and later where it does not suit the job. `failing` are the
    hosts that have not started a job since their last fault."""
    faults = faults_of(job)
    shuns = {}
    for host, attempt in {attempt.at_fault: attempt for attempt in faults}.items():
        unfit = sum(fault.at_fault == host and fault.ended_by == "unfit" for fault in faults)
        if not unfit and host not in failing:
            continue
        until = (attempt.ended_at or now) + pause_s(unfit)
        title = attempt.cause.partition(":")[0]
        moment = clock_words(until, now)
        reason = msg(
            "{host} could not start it ({title_text}): it is not tried there again until {time}.",
            host=host,
            title_text=title,
            time=moment,
        )
        shuns[host] = Shun(until, reason)
    return shuns


def behind_others(hosts: Iterable[Host], now: float) -> dict[str, Shun]:
    """Return the hosts past their pause on which a job that could not start before is, for a while,
    no trial: jobs that may themselves be at fault must not keep a host from all others."""
    shuns = {}
    for host in hosts:
        if host.aside is not None and host.aside.until <= now:
            reason = f"{host.name}: a job that has not failed before is tried there first."
            shuns[host.name] = Shun(host.aside.until + OTHERS_FIRST_S, reason)
    return shuns


def verdict(
    job: Job,
    blame: Blame,
    streaks: Streaks,
    images: dict[str, str],
    fits: Collection[str],
    now: float,
) -> str:
    """Return why a job that a host could not start fails; "" where it waits for another try.

    `images` is the job's image on each host that was tried, `fits` the hosts that could run it.
    """
    faults, hosts = faults_of(job), tried_hosts(job)
    following = [host for host in hosts if not _excused(job.id, host, images[host], streaks)]
    alone = len(fits) < 2
    enough = min(MOST_HOSTS, max(1, len(fits)))
    followed = len(following) >= enough and (not alone or blame is Blame.PLACE)
    began = faults[0].ended_at or now
    too_long = len(faults) >= TRIES and now - began >= PATIENCE_S
    if not followed and not too_long:
        return ""
    causes = {attempt.at_fault: attempt.cause for attempt in faults}
    text = " ".join(f"{host}: {cause.rstrip('.')}." for host, cause in causes.items())
    return f"No host could start it. {text}"


def _excused(job: str, host: str, image: str, streaks: Streaks) -> bool:
    """Whether a fault of a host says nothing of this job: others could not start there either, or
    the host cannot fetch the image."""
    streak = streaks.get((host, ""))
    others = streak is not None and any(each != job for each in streak.jobs)
    return others or (host, image) in streaks
