"""Drives the dashboard in a test: presses keys, clicks, waits until something holds, reads the screen. What a test asks of the
dashboard besides what is painted, it asks here, so that no other file knows what the dashboard is made of."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.keys import REPLACED_KEYS, key_to_character
from textual.pilot import Pilot

from spooltop.model.backend import KeptView
from spooltop.tui import Options
from spooltop.tui.app import SpooltopApp
from spooltop.tui.threads import Pace

from .fake import FakeControl, FakeSpools

__all__ = ["Driver", "Options", "dashboard", "make_app", "several"]

PATIENCE = 40.0
"""Seconds after which a test gives up; no test depends on how long something takes."""


@dataclass
class Driver:
    app: SpooltopApp
    pilot: Pilot[int]
    control: FakeControl

    # What is painted

    @property
    def rows(self) -> list[list[Segment]]:
        """The segments of each line of the screen."""
        return [list(strip) for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        """The text on the screen."""
        return "\n".join("".join(segment.text for segment in row).rstrip() for row in self.rows)

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def chosen(self) -> str:
        """The line under the cursor; "" where there is none."""
        return next((line for line in self.lines if line.lstrip("│").startswith("▌")), "")

    def place(self, words: str) -> tuple[int, int]:
        """The column and line at which ``words`` begin."""
        y = next(y for y, line in enumerate(self.lines) if words in line)
        return self.lines[y].index(words), y

    # What the dashboard is at

    @property
    def looked(self) -> bool:
        """True once the first look is shown."""
        return self.app.main.snapshot.taken_at > 0

    @property
    def at_main(self) -> bool:
        """True if a spool is open, with nothing in front of its views."""
        return type(self.app.screen).__name__ == "MainScreen"

    @property
    def at_plan(self) -> bool:
        """True if a plan is the screen in front."""
        return type(self.app.screen).__name__ == "PlanScreen"

    @property
    def plan_painted_at(self) -> float | None:
        """The time (of the event clock) at which the plan in front was painted; None before."""
        screen = self.app.screen
        return screen.query_one("#panel").painted_at if self.at_plan and screen.plan is not None else None

    @property
    def panels(self) -> int:
        """Number of screens in front of the views."""
        return len(self.app.screen_stack) - 1

    def unread(self) -> int:
        """Takes away what the threads have told and nobody has read, and returns the number of it."""
        return len(self.app.main.session.snapshot_thread.mailbox.take()) + self.app.main.message_queue_size

    @property
    def leaving(self) -> bool:
        return self.app.app_session.leaving.is_set()

    @property
    def clipboard(self) -> str:
        return self.app.clipboard

    def stop_looking(self) -> None:
        self.app.main.session.snapshot_thread.stop(timeout=5.0)

    # Waiting

    async def until(self, holds: Callable[[], object], what: object = "") -> None:
        """Waits until ``holds()``. It does not count turns of the event loop, because the threads need time on a busy machine."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if holds():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"waited for {what or holds}; the screen is:\n{self.text}")

    async def see(self, *words: str) -> str:
        await self.until(lambda: all(word in self.text for word in words), words)
        return self.text

    async def gone(self, word: str) -> None:
        await self.until(lambda: word not in self.text, f"{word!r} to go")

    async def chooses(self, *words: str) -> None:
        """Waits until the line under the cursor has these words."""
        await self.until(lambda: all(word in self.chosen for word in words), f"{words} under the cursor")

    # Keys and the mouse

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
            self.at_once(key)
            await self.pilot.pause(0)  # the app hands it on
            await self.pilot.pause(0)

    def at_once(self, *keys: str, at: float | None = None) -> None:
        """Types keys in one read of the terminal, as tmux and a paste send them. ``at`` is a time of the event clock."""
        for key in keys:
            event = events.Key(key, key_to_character(REPLACED_KEYS.get(key, key)))
            event.time = event.time if at is None else at
            self.app.post_message(event)

    def paste(self, text: str) -> None:
        self.app.post_message(events.Paste(text))

    async def planned(self, *keys: str) -> None:
        """Presses keys and waits until the plan was painted."""
        await self.press(*keys)
        await self.until(lambda: self.plan_painted_at is not None, "the plan")

    async def click(self, x: int, y: int, button: int = 1) -> None:
        widget, region = self.app.get_widget_at(x, y)
        place = x - region.x, y - region.y
        widget.post_message(events.Click(widget, *place, 0, 0, button, False, False, False, screen_x=x, screen_y=y))
        await self.pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        await self.pilot.resize_terminal(width, height)


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
            await driver.until(lambda: driver.looked, "the first look")
            await pilot.pause()
        try:
            yield driver
        finally:
            control.hang.set()
            control.gate.set()
    app.finish()


@asynccontextmanager
async def several(spools: FakeSpools, size: tuple[int, int] = (80, 23)) -> AsyncIterator[Driver]:
    """The Spools view, after the first glances."""
    app = make_app(None, spools=spools)
    async with app.run_test(size=size) as pilot:
        driver = Driver(app, pilot, next(iter(spools.controls.values()), FakeControl()))
        await driver.see(f"{len(spools.glances())} spools")
        try:
            yield driver
        finally:
            spools.gate.set()
    app.finish()
