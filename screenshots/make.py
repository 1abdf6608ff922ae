"""Draws the pictures of this folder, and the words of the same screens in ``tests/snapshots/text``.

    python screenshots/make.py              draws them all anew (PNG needs rsvg-convert)
    python screenshots/make.py --check      says which are not what the code draws now; exit code 1 where any is not

The scenes stand in ``tests/snapshots/scenes.py``. Each runs in the real app at a fixed time in a fixed zone, so that the same
code draws the same bytes. What is shown is told from words and styles alone: PNG are made of the SVG and are not compared.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from screenshots.svg import Palette
    from tests.snapshots.scenes import Scene, Size

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TEXTS = ROOT / "tests" / "snapshots" / "text"
PNG = tuple(f"{name}-80x23-dark" for name in ("overview", "claims", "plan", "result", "cursor"))
"""The pictures of the README, which are there as PNG too."""


def files_of(scene: Scene) -> Iterator[tuple[Path, Size, Palette | None]]:
    """(path below the root, size, palette) of each file that a scene is drawn into; words have no palette; no PNG."""
    from screenshots.svg import DARK, LIGHT
    from tests.snapshots.scenes import SMALL

    for size in scene.sizes:
        screen = f"{size[0]}x{size[1]}"
        yield TEXTS.relative_to(ROOT) / f"{scene.name}-{screen}.txt", size, None
        dark, light = size in scene.pictured, scene.light and size == SMALL
        for palette in [DARK] * dark + [LIGHT] * light:
            yield HERE.relative_to(ROOT) / f"{scene.name}-{screen}-{palette.name}.svg", size, palette


def drawn(only: Collection[str]) -> Iterator[tuple[Path, str]]:
    """(path below the root, content) of each file of the scenes ``only``, of all where there are none in it."""
    from screenshots.svg import svg
    from tests.snapshots.drawing import draw, text
    from tests.snapshots.scenes import SCENES

    for scene in SCENES:
        if only and scene.name not in only:
            continue
        screens = dict(zip(scene.sizes, asyncio.run(draw(scene, scene.sizes)), strict=True))
        for path, size, palette in files_of(scene):
            rows = screens[size]
            if palette is None:
                yield path, text(rows)
            else:
                yield path, svg(rows, size[0], palette, f"spooltop, {scene.name}, {size[0]} by {size[1]}, {palette.name}")


def drawn_no_more() -> set[Path]:
    """Paths below the root of pictures and texts that no scene is drawn into."""
    from tests.snapshots.scenes import SCENES

    there = {path.relative_to(ROOT) for path in [*HERE.glob("*.svg"), *TEXTS.glob("*.txt")]}
    return there - {path for scene in SCENES for path, _, _ in files_of(scene)}


def write(only: Collection[str]) -> None:
    """Writes what differs and takes away what is drawn no more."""
    for path, content in drawn(only):
        if _read(ROOT / path) != content:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(content, encoding="utf-8")
            print(f"drew {path}")
            if path.suffix == ".svg" and path.stem in PNG:
                _png(ROOT / path)
    for stem in PNG:
        if not _png_of(stem).exists():
            _png(HERE / f"{stem}.svg")
    for path in drawn_no_more():
        (ROOT / path).unlink()
        print(f"took away {path}")


def check(only: Collection[str], root: Path) -> int:
    """Prints what differs from what is there below ``root``; how many files do."""
    wrong = 0
    for path, content in drawn(only):
        there = _read(root / path)
        if there == content:
            continue
        wrong += 1
        print(f"{path} is not what the code draws now" if there is not None else f"{path} is missing")
        if path.suffix == ".txt" and there is not None:
            diff = difflib.unified_diff(there.splitlines(), content.splitlines(), "committed", "drawn", lineterm="", n=1)
            print("\n".join(diff))
    left = drawn_no_more()
    missing = [stem for stem in PNG if not _png_of(stem).exists()]
    for path in left:
        print(f"{path} is drawn no more")
    for stem in missing:
        print(f"{_png_of(stem).relative_to(ROOT)} is missing")
    return wrong + len(left) + len(missing)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _png_of(stem: str) -> Path:
    return HERE / f"{stem}.png"


def _png(path: Path) -> None:
    from screenshots.png import smaller

    drawn = subprocess.run(["rsvg-convert", "--zoom=1.5", str(path)], check=True, capture_output=True).stdout
    _png_of(path.stem).write_bytes(smaller(drawn))


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the pictures of the README, or compare them with the code.")
    parser.add_argument("--check", action="store_true", help="draw nothing, say what differs")
    parser.add_argument("--only", metavar="SCENE", nargs="+", default=(), help="only these scenes")
    parser.add_argument("--against", metavar="DIR", type=Path, default=ROOT, help="compare with a copy of this project")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.snapshots.values import TZ

    os.environ["TZ"] = TZ
    time.tzset()
    if not options.check:
        write(options.only)
        return 0
    wrong = check(options.only, options.against)
    if wrong:
        print(f"{wrong} files differ; look at them, then run: python screenshots/make.py")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
