"""The pictures of the README and the words of all scenes are what the code draws now."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from screenshots import make
from screenshots.png import _chunk, lines_of, smaller

from . import drawing
from .scenes import SCENES, SMALL
from .values import TZ

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "screenshots"
TEXTS = Path(__file__).parent / "text"
MOST = 1_600_000
"""Bytes that a clone pays for the pictures."""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs make.py as its user would."""
    return subprocess.run([sys.executable, str(SCREENSHOTS / "make.py"), *words], capture_output=True, text=True, check=False)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time zone of the pictures: it belongs to a process."""
    monkeypatch.setenv("TZ", TZ)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_each_picture_is_what_the_code_draws_now(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = make.check([name], ROOT)
    assert wrong == 0, f"{capsys.readouterr().out}\nrun python screenshots/make.py and look at what changed"


def test_a_picture_that_is_not_is_named_with_what_differs(tmp_path: Path) -> None:
    (tmp_path / "tests" / "snapshots" / "text").mkdir(parents=True)
    (tmp_path / "screenshots").mkdir()
    for path in [*TEXTS.glob("locks-*.txt"), *SCREENSHOTS.glob("locks-*.svg")]:
        kept = tmp_path / path.relative_to(ROOT)
        kept.write_bytes(path.read_bytes().replace(b"leader.lock", b"legion.lock"))
    done = run("--check", "--only", "locks", "--against", str(tmp_path))
    assert done.returncode == 1
    assert "screenshots/locks-80x23-dark.svg is not what the code draws now" in done.stdout
    assert "-▌STALE     /opt/memex/legion.lock soft" in done.stdout
    assert "python screenshots/make.py" in done.stdout


async def test_a_light_terminal_gets_the_same_screen() -> None:
    """Only the palette differs, and that is the terminal's: so the light pictures are of the dark screen."""
    scene = next(scene for scene in SCENES if scene.name == "overview")
    [dark], [light] = await drawing.draw(scene, [SMALL]), await drawing.draw(scene, [SMALL], light=True)
    assert drawing.text(dark) == drawing.text(light)
    assert [[segment.style for segment in row] for row in dark] == [[segment.style for segment in row] for row in light]


def test_the_pictures_need_nothing_from_elsewhere_and_stay_small() -> None:
    files = [path for path in SCREENSHOTS.iterdir() if path.suffix in (".svg", ".png")]
    assert sum(path.stat().st_size for path in files) < MOST
    for path in files:
        if path.suffix == ".svg":
            words = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not any(word in words for word in ("http:", "https:", "url(", "@import", "<script", "href")), path.name


@pytest.mark.parametrize("filter", range(5))
def test_a_picture_gets_smaller_without_another_pixel(filter: int) -> None:
    header = struct.pack(">IIBBBBB", 2, 2, 8, 6, 0, 0, 0)
    packed = zlib.compress(b"".join(bytes([filter, *range(at, at + 8)]) for at in (3, 250 - 8)), 0)
    png = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"tEXt", b"x") + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")
    made = smaller(png)
    assert lines_of(made) == lines_of(png) and b"tEXt" not in made
    if filter == 1:
        assert lines_of(png)[0] == bytes([3, 4, 5, 6, 10, 12, 14, 16])  # each byte is added to the one of the pixel before
