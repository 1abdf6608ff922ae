"""Every view and panel in windows of every size: nothing raises, nothing is wider than the window, the cursor is visible."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual.events import Resize
from textual.geometry import Size

from spooltop.cursors.model import CursorSection
from spooltop.model.plan import Actor, AuditLine, AuditTrail, ItemResult, OperationRecord, Outcome
from spooltop.model.snapshot import Problem, Severity
from spooltop.model.vocabulary import Action, Holders, Holding, LockHolder, Owner, Payload, Verdict, escape

from .driving import Driver, dashboard
from .fake import NOW, FakeControl, a_cursor, a_lock, claim, waiting, written

SIZES = [
    (40, 10), (80, 23), (160, 50), *(pytest.param(size, marks=pytest.mark.long) for size in ((60, 15), (120, 30), (200, 60))),
]  # fmt: skip
TINY = [(39, 10), (40, 9), (20, 5), (9, 3), (1, 1)]


def control() -> FakeControl:
    fake = FakeControl(
        [*(claim(n) for n in range(6)), claim(9, Verdict.ALIVE), *(waiting(n) for n in range(120)), written(1), written(2)]
    )
    fake.cursors = (a_cursor(), a_cursor("email", "advancing"))
    fake.locks = (a_lock(),)
    fake.records = [OperationRecord(f"a{n}", Action.PURGE, NOW - 60 * n, "memex", 3, 3) for n in range(30)]
    return fake


def fits(driver: Driver) -> None:
    width, height = driver.app.size
    assert len(driver.lines) == height
    assert all(cell_len(line) <= width for line in driver.lines)


@pytest.mark.parametrize("size", SIZES)
async def test_every_view(size: tuple[int, int]) -> None:
    async with dashboard(control(), size=size) as driver:
        for key, cursor in [("1", True), ("2", True), ("3", True), ("4", True), ("5", True), ("6", False), ("7", False)]:
            await driver.strike(key)
            if cursor:
                await driver.see("▌")
            for move in ("end", "j", "pageup", "k", "pagedown", "home", "ctrl+u", "G"):
                await driver.strike(move)
                fits(driver)
                if cursor:
                    await driver.see("▌")
            await driver.strike("enter")
            fits(driver)
            await driver.strike("G", "g", "escape")
            fits(driver)


@pytest.mark.parametrize("size", SIZES)
async def test_every_panel(size: tuple[int, int]) -> None:
    async with dashboard(control(), size=size) as driver:
        for keys in (["question_mark"], ["colon"], ["colon", *"que"], ["z"], ["z", "G"], ["i"], ["i", "tab", "tab"]):
            await driver.strike(*keys)
            await driver.pilot.pause()
            fits(driver)
            await driver.strike("down", "pagedown", "up")
            fits(driver)
            await driver.strike("escape")
        ways = [("3 x", "Who has"), ("3 F", "Following"), ("5 e", "Set the cursor"), ("z enter", "a0")]
        for way, words in [(keys.split(), words) for keys, words in ways]:
            await driver.strike(*way[:-1])
            if way[0] == "3":
                await driver.chooses("00000005")
            await driver.strike(way[-1])
            await driver.see(words)
            fits(driver)
            await driver.strike("down", "pagedown", "up")
            fits(driver)
            await driver.strike("escape")
        await driver.press("escape", "1")
        await driver.planned("r")
        await driver.see("Requeue 6", "y requeue 6")
        fits(driver)
        await driver.walk(("G k y", "Requeued 6"))
        fits(driver)
        await driver.walk(("G escape", "no problems detected"))


@pytest.mark.parametrize("size", TINY)
async def test_below_the_least_it_says_what_it_needs(size: tuple[int, int]) -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("3", "Claims 7"))
        await driver.planned("r")
        await driver.resize(*size)
        await driver.until(lambda: len(driver.lines) == size[1])
        if size[0] > 30:
            await driver.see("spooltop needs 40×10")
        fits(driver)
        await driver.press("y")
        assert driver.control.applied == []
        await driver.press("escape")
        for key in "1234567":
            await driver.strike(key)
            fits(driver)
        await driver.resize(40, 10)
        await driver.see("Claims 7")


HOSTILE = ("[red]x[/]", "a\x1b]0;t\x07\nb\udcff\u202e", "日本" * 60, "e" + "\u0301" * 200 + "❤\ufe0f" * 20)


def hostile(name: str) -> FakeControl:
    """A spool all of whose texts are one that somebody else chose."""
    owner = Owner(host=name, pid=3, command=name, user=name)
    row = replace(claim(1), id=name, name=name, source=name, evidence=name, note=name, reason=name, owner=owner)
    fake = FakeControl([row, replace(waiting(1), id=name, name=name, source=name), replace(written(1), id=name, name=name)])
    held = LockHolder(1, name, name, NOW)
    history = (CursorSection(NOW, name, (name,), (held,), shown=name),) * 2
    fake.cursors = (replace(a_cursor(name), shown=name, value=name, evidence=name, file=name, history=history),)
    fake.locks = (replace(a_lock(), path=name, holders=(held,), waiters=(LockHolder(None),), evidence=name),)
    fake.problems = (Problem("cursor-reverted", Severity.CRITICAL, name, view="cursors", subject=name),) * 6
    fake.records = [OperationRecord("a1", Action.PURGE, NOW, name, 3, 3, words=name, why_not_undo=name)]
    result = ItemResult(name, name, Outcome.FAILED, escape(name), name)
    line = AuditLine(NOW, "after", name, name, Actor(0, 7, name, name, name), 3, 3, results=(result,), trusted=False)
    fake.trails = {"a1": AuditTrail((line, replace(line, event="before", results=())), (escape(name),))}
    fake.holding = Holders(escape(name), (Holding(5201, name, name, "flock, holds", NOW - 60, of=escape(name)),), False, (name,))
    fake.payloads = {("cur", 1): os.fsencode(name) * 9 + bytes(range(256))}
    return fake


def safe(driver: Driver) -> None:
    fits(driver)
    assert all(map(str.isprintable, driver.lines)), driver.text


@pytest.mark.long
@pytest.mark.parametrize("size", [(80, 23), (160, 50)])
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
async def test_no_name_reaches_the_terminal_raw(name: str, size: tuple[int, int]) -> None:
    async with dashboard(hostile(name), size=size) as driver:
        for keys in ("1", "2", "2 enter", "3", "3 enter", "3 x", "3 F", "4", "5", "5 enter", "5 e", "6", "8", "z enter"):
            await driver.press("escape", "escape", *keys.split())
            safe(driver)
        await driver.press("escape", "escape", "3")
        await driver.planned("r")
        await driver.walk(("y", "Requeued 1"))
        safe(driver)


SIZE = 65_536
KINDS = {
    "letters": b"x", "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 ".encode(), "tabs": b"\t", "0xff": b"\xff",
    "marks": ("e" + "\u0301" * 99).encode(), "NUL": b"\0", "ESC": b"\x1b", "lines": b"\n", "wide": "日本".encode(),
    "vowels": "\u0915\u093f".encode(), "flags": "🇩🇪".encode(), "clauses": b"a, ",
}  # fmt: skip


def filled(kind: str) -> bytes:
    return (KINDS[kind] * SIZE)[:SIZE]


class Counted(bytes):
    """A payload that counts how many of its bytes were read."""

    taken = 0

    def __getitem__(self, place: object) -> object:  # type: ignore[override]
        part = super().__getitem__(place)  # type: ignore[index]
        self.taken += len(part) if isinstance(part, bytes) else 1
        return part


@pytest.mark.parametrize("kind", KINDS)
async def test_of_a_long_payload_what_is_seen_is_drawn_once_and_of_a_long_name_its_ends(kind: str) -> None:
    data = Counted(filled(kind))
    name = data.decode("utf-8", "surrogateescape")
    fake = FakeControl([claim(1)])
    fake.cursors = (a_cursor(f"ab{name}"), replace(a_cursor("b"), evidence=name, verdict="stalled"))
    fake.read = lambda key, limit=SIZE: Payload(data, SIZE, False)  # type: ignore[method-assign]
    async with dashboard(fake) as driver:
        await driver.walk(("3", "DEAD", "more"))
        safe(driver)
        taken = data.taken
        assert taken <= 12 * 80 * 4 + 512
        fake.change()
        await driver.press("t", "t", "t")
        assert data.taken == taken  # it is drawn once
        await driver.walk(("enter", "watched for"), ("G", "watched for"))
        await driver.gone("enqueued")
        safe(driver)
        assert data.taken <= 2 * SIZE
        for keys in ("pageup", "pageup", "g", "escape", "5", "enter"):
            await driver.press(keys)
            safe(driver)
        assert data.taken <= 2 * SIZE


@pytest.mark.timeout(60)
async def test_two_sizes_on_their_way_at_once_come_to_rest() -> None:
    """Textual tells a screen once more of each size that it was laid out in: without a check two sizes call each other up for
    ever, and no key and no signal is heard any more."""
    async with dashboard(control()) as driver:
        sizes: list[tuple[int, int]] = []
        screen = driver.app.screen
        for columns, rows in ((100, 30), (80, 23), (100, 30), (90, 25)):
            size = Size(columns, rows)
            driver.app.post_message(Resize(size, size))
            screen.post_message(Resize(size, size))
            screen.call_later(lambda: sizes.append(screen.size))
        await driver.until(lambda: len(sizes) == 4 and screen.size == (90, 25))
        await driver.walk(("3", "Claims 7"))
        assert screen.size == (90, 25)
