"""The images of a host on its screen."""

from __future__ import annotations

from gpuconsole.core.fleet import Host
from gpuconsole.core.images import ImageRecord
from gpuconsole.session.images.service import HostImages
from gpuconsole.tui.render.host import SHOWN, image_lines
from tests.tui.console import WIDE, opened
from tests.tui.fake import FakeSession


async def test_the_host_screen_names_its_images() -> None:
    async with opened(FakeSession(), (WIDE[0], 48)) as console:
        await console.press("enter")
        await console.shows("images", "lab/train:7", "9.0 GiB")


async def test_names_and_errors_of_any_length_and_kind_are_held() -> None:
    async with opened(FakeSession()) as console:
        ink = console.app.screen.ink  # type: ignore[attr-defined]
        records = tuple(
            ImageRecord(f"sha256:{n:064x}", (f"registry.example/a/{'x' * 70}:{n}",), size_mib=1.0)
            for n in range(SHOWN + 2)
        )
        lines = image_lines(ink, HostImages(Host("a"), records), 30)
        assert len(lines) == SHOWN + 2
        assert all(sum(len(word) for word, _ in line) <= 30 for line in lines)
        broken = image_lines(ink, HostImages(Host("a"), (), "Docker is not there: [b]a[/b]"), 60)
        assert "[b]a[/b]" in broken[1][0][0]
        assert image_lines(ink, HostImages(Host("a")), 30)[1][0][0] == "none yet"
