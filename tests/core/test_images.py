"""Names of images taken apart, and what is said of those that move."""

from __future__ import annotations

import pytest

from gpuconsole.core.images import ImageRecord, floating_note, parse_reference
from gpuconsole.errors import UsageError

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "name", "tag", "digest"),
    [
        ("paddle", "paddle", "", ""),
        ("paddlepaddle/paddle:3.3.1-gpu", "paddlepaddle/paddle", "3.3.1-gpu", ""),
        ("localhost:5000/a/b:1", "localhost:5000/a/b", "1", ""),
        ("localhost:5000/a", "localhost:5000/a", "", ""),
        (f"Registry.example/a@{DIGEST}", "Registry.example/a", "", DIGEST),
        (f"a__b/c-d:1@{DIGEST}", "a__b/c-d", "1", DIGEST),
        ("[fd00::1]:5000/a:b", "[fd00::1]:5000/a", "b", ""),
    ],
)
def test_a_name_has_parts(text: str, name: str, tag: str, digest: str) -> None:
    found = parse_reference(text)
    assert (found.name, found.tag, found.digest) == (name, tag, digest)
    assert found.pinned == bool(digest)


def test_an_id_alone_is_an_image() -> None:
    assert parse_reference(DIGEST).id == DIGEST
    assert parse_reference(DIGEST).pinned


@pytest.mark.parametrize(
    "text",
    ["", "team/UPPER", "a b", "a:", "-a", "a//b", "a:tag with space", "a\n", "é", "a" * 600],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert caught.value.title == "Not an image's name"


@pytest.mark.parametrize("digest", ["sha256:12", "sha256:" + "g" * 64, "md5:" + "0" * 32, ""])
def test_a_bad_digest_is_called_so(digest: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reference(f"team/train@{digest}")
    assert caught.value.title == "Wrong digest"


@pytest.mark.parametrize("image", ["paddle", "paddle:latest", "localhost:5000/paddle"])
def test_a_name_that_moves_is_told(image: str) -> None:
    what = "is tagged latest" if image.endswith(":latest") else "has no tag, which means latest"
    assert floating_note(image) == (
        f"The image {image} {what}: hosts may hold different ones, and a later pull another again."
        " Name a version, or pin it: gpuconsole image pin."
    )


@pytest.mark.parametrize("image", ["paddle:3", f"paddle@{DIGEST}", DIGEST, "", "No Name"])
def test_a_name_that_stays_is_not(image: str) -> None:
    assert floating_note(image) == ""


def test_a_digest_is_found_under_the_name_that_docker_shows() -> None:
    record = ImageRecord(DIGEST, ("paddle:1",), (f"paddle@{DIGEST}",))
    assert record.digest_of("docker.io/library/paddle") == DIGEST
    assert record.digest_of("other") == ""
