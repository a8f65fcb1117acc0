"""Failures are named: device memory, host memory, exit codes, missing modules."""

from __future__ import annotations

import pytest

from gpuconsole.core.containers import KIND_LABEL, ContainerStatus
from gpuconsole.core.jobs import JobState
from gpuconsole.session.dispatch.attempt.outcome import NO_SHELL, Outcome, exit_sentence, outcome_of

PADDLE_OOM = """Traceback (most recent call last):
  File "train.py", line 30, in <module>
    loss.backward()
MemoryError:

--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   egr::Backward(...)
----------------------
Error Message Summary:
----------------------
ResourceExhaustedError:

Out of memory error on GPU 0. Cannot allocate 3.125000GB memory on GPU 0, \
37.500000GB memory has been allocated and available memory is only 117.750000MB.

Please check whether there is any other process using GPU 0.
1. If yes, please stop them, or start PaddlePaddle on another GPU.
2. If no, please decrease the batch size of your model.
 (at ../paddle/fluid/memory/allocation/cuda_allocator.cc:86)
"""


def ended(code: int | None = 1, **changes: object) -> ContainerStatus:
    return ContainerStatus("id", "name", "exited", exit_code=code, **changes)  # type: ignore[arg-type]


def outcome(status: ContainerStatus, log: str = "", *, cancelled: bool = False) -> Outcome:
    return outcome_of(status, log, image="paddle:3.0", memory_limit_mib=2048.0, cancelled=cancelled)


def test_paddles_own_words_give_both_figures() -> None:
    found = outcome(ended(), PADDLE_OOM)
    assert found.state is JobState.OOM
    assert (found.requested_mib, found.available_mib) == (3200.0, 117.75)
    assert found.cause == "Out of memory on GPU 0: 3.1 GiB requested, 118 MiB available."


@pytest.mark.parametrize(
    ("line", "requested", "available"),
    [
        (
            "Out of memory error on GPU 1. Cannot allocate 98.000244MB memory on GPU 1, "
            "6.000000GB memory has been allocated and available memory is only 0.000000B.",
            98.000244,
            0.0,
        ),
        (
            "Out of memory error on GPU 0. Cannot allocate 145.46MB GPU memory, available memory "
            "is 72.31MB.",
            145.46,
            72.31,
        ),
        (
            "Out of memory error on npu:3. total memory is 64.0GB, used memory is 63.0GB, "
            "available memory is only 1.000000GB.",
            None,
            1024.0,
        ),
    ],
)
def test_older_and_other_wordings(
    line: str, requested: float | None, available: float | None
) -> None:
    found = outcome(ended(), line)
    assert (found.state, found.requested_mib, found.available_mib) == (
        JobState.OOM,
        requested,
        available,
    )


def test_the_last_of_several_is_told() -> None:
    found = outcome(ended(), PADDLE_OOM + PADDLE_OOM.replace("3.125000GB", "1.000000GB"))
    assert found.requested_mib == 1024.0


def test_a_script_that_survived_its_oom_succeeded() -> None:
    assert outcome(ended(0), PADDLE_OOM).state is JobState.SUCCEEDED


def test_a_cuda_librarys_words_are_an_oom_without_figures() -> None:
    found = outcome(ended(), "OSError: (External) CUDA error(2), out of memory.")
    assert (found.state, found.requested_mib) == (JobState.OOM, None)


def test_host_memory_is_a_failure_with_the_limit() -> None:
    found = outcome(ended(137, oom_killed=True), PADDLE_OOM)
    assert found.state is JobState.FAILED
    assert "memory limit (2.0 GiB)" in found.cause


def test_a_missing_module_is_named_with_its_image() -> None:
    found = outcome(ended(), "x\nModuleNotFoundError: No module named 'paddlenlp'\n")
    assert found.cause == "Python module 'paddlenlp' is missing in the image paddle:3.0."


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "Exit code 1."),
        (127, "not found in the image"),
        (137, "SIGKILL"),
        (139, "SIGSEGV"),
        (143, "SIGTERM"),
        (200, "Exit code 200."),
        (None, "does not say"),
    ],
)
def test_exit_codes_are_explained(code: int | None, words: str) -> None:
    assert words in exit_sentence(code)
    assert words in outcome(ended(code)).cause


def test_the_last_exception_follows_the_exit_code() -> None:
    found = outcome(ended(1), "Traceback ...\nValueError: (InvalidArgument) \x1b[31mbad shape\n")
    assert found.cause == "Exit code 1. ValueError: (InvalidArgument) bad shape"


def test_a_container_that_never_started_says_why() -> None:
    status = ContainerStatus("id", "n", "created", exit_code=128, error="unknown device GPU-9")
    assert outcome(status) == Outcome(JobState.FAILED, "Could not be started: unknown device GPU-9")


def test_a_cancelled_one_is_cancelled_whatever_its_code() -> None:
    for code in (0, 1, 143):
        assert outcome(ended(code), cancelled=True).state is JobState.CANCELLED


def test_a_hostile_log_costs_little() -> None:
    hostile = "Out of memory error on GPU 0." * 8000 + "A" * 10_000 + "Error" * 1000
    assert outcome(ended(), hostile[: 256 * 1024]).state is JobState.OOM


@pytest.mark.parametrize(
    ("kind", "log", "cause"),
    [
        ("jupyter", "The image has no JupyterLab.\r\n", "The image has no JupyterLab."),
        (
            "session",
            "The image has no Python 3.6 or later.\n",
            "The image has no Python 3.6 or later.",
        ),
        ("session", "", NO_SHELL),
        (
            "session",
            "$ echo The image has no soul\n",
            NO_SHELL,
        ),
        ("script", "", "Exit code 127: the command was not found in the image."),
    ],
)
def test_what_an_image_lacks_for_a_session_is_named(kind: str, log: str, cause: str) -> None:
    found = outcome(ended(127, labels={KIND_LABEL: kind}), log)
    assert (found.state, found.cause) == (JobState.FAILED, cause)
