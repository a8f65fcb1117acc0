"""Why jobs wait, worked out when somebody asks, with the batch that would let them start sooner."""

from __future__ import annotations

from gpuconsole.session.queue.wait_reasons import smaller_batches


def verdict(device: str, said: str, most: int | None) -> dict[str, object]:
    return {"device": device, "verdict": said, "max_batch_size": most}


def test_a_smaller_batch_is_named_for_the_devices_that_are_too_small() -> None:
    document = {
        "batch_size": 64,
        "verdicts": [
            verdict("A100", "fits", 96),
            verdict("V100", "will-not-fit", 48),
            verdict("RTX 3090", "will-not-fit", 24),
            verdict("RTX 3090", "will-not-fit", 22),
            verdict("T4", "will-not-fit", 12),
        ],
    }
    assert smaller_batches(document) == (
        "With a batch of 48 or less instead of 64, V100 will do too.",
        "With a batch of 24 or less instead of 64, RTX 3090 will do too.",
    )


def test_no_batch_is_named_where_none_is_known_or_none_helps() -> None:
    known = [verdict("V100", "will-not-fit", 48)]
    assert smaller_batches({}) == ()
    assert smaller_batches({"batch_size": None, "verdicts": known}) == ()
    assert smaller_batches({"batch_size": 8, "verdicts": [verdict("T4", "will-not-fit", 0)]}) == ()
    assert smaller_batches({"batch_size": 8, "verdicts": [verdict("T4", "will-fail", 4)]}) == ()
