"""Draws a scene through the real app, without a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from ..tui.driving import Driver, Options, make_app
from .scenes import Clock, Scene, SceneControl, Size
from .several import SceneSpools

__all__ = ["Rows", "draw", "text"]

Rows = list[list[Segment]]
"""A screen: for each of its lines the pieces of it."""

AN_AGE = 86400.0
"""Seconds between two looks where nothing happens: a scene is looked at once, and again when it says so."""


async def draw(
    scene: Scene, sizes: Sequence[Size], *, light: bool = False, colour: bool = True, opened: type[SceneControl] = SceneControl
) -> list[Rows]:
    """The screen at the end of a scene, in each of ``sizes``: the terminal is resized from one to the next."""
    clock = Clock()
    other = None if scene.queue is None else scene.queue()
    control = opened(scene.snapshot() if other is None else other.snapshot, clock, other)
    options = Options(light=light, ascii=scene.ascii, banner=scene.banner, colour=colour)
    given = None if scene.several else control
    spools = SceneSpools() if scene.several else None
    app = make_app(given, options, quiet=AN_AGE, busy=0.0, monotonic=clock, spools=spools)
    app.animation_level = "none"
    async with app.run_test(size=sizes[0]) as pilot:
        driver = Driver(app, pilot, control)
        try:
            if not scene.several:
                await driver.until(lambda: driver.looked, "the first look")
            for step in scene.steps:
                if step.act is not None:
                    step.act(control)
                await driver.press(*step.keys)
                await driver.see(*step.see)
            screens = [await _settled(driver)]
            for width, height in sizes[1:]:
                await pilot.resize_terminal(width, height)
                screens.append(await _settled(driver))
            return screens
        finally:
            control.hang.set()
            if not scene.several:
                driver.stop_looking()
            app.finish()


async def _settled(driver: Driver) -> Rows:
    """The screen once it stays as it is over some turns of the event loop."""
    rows = driver.rows
    same = 0
    while same < 3:
        await driver.pilot.pause()
        before, rows = rows, driver.rows
        same = same + 1 if rows == before else 0
    return rows


def text(rows: Rows) -> str:
    """The words of a screen, line by line."""
    return "".join("".join(segment.text for segment in row).rstrip() + "\n" for row in rows)
