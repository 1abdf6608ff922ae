"""Drives the dashboard in a test: presses keys, waits until something holds, reads the screen."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from textual import events
from textual.keys import REPLACED_KEYS, key_to_character
from textual.pilot import Pilot

from spooltop.model.kept_view import KeptView
from spooltop.tui import Options
from spooltop.tui.app import SpooltopApp
from spooltop.tui.screens.main.screen import MainScreen
from spooltop.tui.screens.operating.plan import PlanScreen
from spooltop.tui.threads.pace import Pace

from .fake import FakeControl, FakeSpools

__all__ = ["Driver", "Options", "dashboard", "make_app"]

PATIENCE = 40.0
"""Seconds after which a test gives up; no test depends on how long something takes."""


@dataclass
class Driver:
    app: SpooltopApp
    pilot: Pilot[int]
    control: FakeControl

    @property
    def text(self) -> str:
        """The text on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def at_plan(self) -> bool:
        """True if a plan is the screen in front."""
        return isinstance(self.app.screen, PlanScreen)

    @property
    def at_main(self) -> bool:
        """True if a spool is open, with nothing in front of its views."""
        return isinstance(self.app.screen, MainScreen)

    async def until(self, holds: Callable[[], object], what: str = "") -> None:
        """Waits until ``holds()``. It does not count turns of the event loop, because the threads need time on a busy machine."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if holds():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"waited for {what or holds}; the screen is:\n{self.text}")

    async def see(self, *words: str) -> str:
        await self.until(lambda: all(word in self.text for word in words), repr(words))
        return self.text

    async def gone(self, word: str) -> None:
        await self.until(lambda: word not in self.text, f"{word!r} to go")

    async def walk(self, *steps: tuple[str, ...]) -> str:
        """Presses the keys of each step, waits for its words and returns the last screen: ``("3", "Claims 3"), ("G g", "▌")``."""
        for keys, *words in steps:
            await self.press(*keys.split())
            await self.see(*words)
        return self.text

    async def press(self, *keys: str) -> None:
        """Presses keys one after the other and waits until the process is idle."""
        await self.strike(*keys)
        await self.pilot.pause()

    async def strike(self, *keys: str) -> None:
        """Presses keys one after the other. Each was handled, but unlike ``press`` nothing waits for the threads."""
        for key in keys:
            self.app.post_message(events.Key(key, key_to_character(REPLACED_KEYS.get(key, key))))
            await self.pilot.pause(0)  # the app hands it on
            await self.pilot.pause(0)


def make_app(
    control: FakeControl | None,
    options: Options | None = None,
    *,
    quiet: float = 0.2,
    busy: float = 0.005,
    monotonic: Callable[[], float] = time.monotonic,
    moment: float = 0.0,
    kept: KeptView | None = None,
    spools: FakeSpools | None = None,
) -> SpooltopApp:
    """The dashboard of one control, or of several spools. It waits ``quiet`` seconds for a change and rests ``busy`` after one;
    ``moment``: milliseconds for which a plan is there before a key confirms it."""
    pace = Pace(quiet, busy)
    return SpooltopApp(control, options or Options(), pace=pace, monotonic=monotonic, moment=moment, kept=kept, spools=spools)


@asynccontextmanager
async def dashboard(
    control: FakeControl,
    size: tuple[int, int] = (80, 23),
    options: Options | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    moment: float = 0.0,
    quiet: float = 0.2,
    kept: KeptView | None = None,
) -> AsyncIterator[Driver]:
    """The dashboard on a control, after the first look."""
    app = make_app(control, options, quiet=quiet, monotonic=monotonic, moment=moment, kept=kept)
    async with app.run_test(size=size) as pilot:
        driver = Driver(app, pilot, control)
        if control.hang.is_set() and control.broken is None:
            await driver.until(lambda: app.main.state.received.snapshot is not None, "the first look")
            await pilot.pause()
        try:
            yield driver
        finally:
            control.hang.set()
            control.gate.set()
    app.finish()
