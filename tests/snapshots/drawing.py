"""Draws a scene through the real app, without a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.segment import Segment

from ..tui.driving import Driver, Options, make_app
from .scenes import Clock, Scene, SceneControl, Size
from .several import SceneSpools

__all__ = ["Rows", "draw", "text"]

PATIENCE = 30.0
"""Seconds after which a scene that does not come to what it should show is given up."""

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
                await _until(driver, lambda: app.main.state.received.snapshot is not None, "the first look")
            for step in scene.steps:
                if step.act is not None:
                    step.act(control)
                await driver.press(*step.keys)
                await _until(driver, lambda words=step.see: all(word in driver.text for word in words), step.see)
            screens = [await _settled(driver)]
            for width, height in sizes[1:]:
                await pilot.resize_terminal(width, height)
                screens.append(await _settled(driver))
            return screens
        finally:
            control.hang.set()
            if not scene.several:
                app.target.snapshot_thread.stop(timeout=5.0)
            app.finish()


async def _until(driver: Driver, holds: Callable[[], object], what: object) -> None:
    """Waits until ``holds()`` is true. The parts that look and draw take turns, which takes no fixed time."""
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            raise AssertionError(f"waited for {what}; the screen is:\n{driver.text}")
        await driver.pilot.pause(0.01)


async def _settled(driver: Driver) -> Rows:
    """The screen once it stays as it is over some turns of the event loop."""
    rows = _rows(driver)
    same = 0
    while same < 3:
        await driver.pilot.pause()
        before, rows = rows, _rows(driver)
        same = same + 1 if rows == before else 0
    return rows


def _rows(driver: Driver) -> Rows:
    return [list(strip) for strip in driver.app.screen._compositor.render_strips()]


def text(rows: Rows) -> str:
    """The words of a screen, line by line."""
    return "".join("".join(segment.text for segment in row).rstrip() + "\n" for row in rows)
