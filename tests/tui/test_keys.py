"""Presses every key of every command of the table in the real application and checks the screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from spooltop.model.plan import Confirm, OperationRecord
from spooltop.model.snapshot import Pause
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.keys import COMMANDS

from .driving import Driver, dashboard
from .fake import NOW, FakeControl, a_cursor, a_lock, claim, waiting, written

ELSEWHERE = {
    "suspend": "tests/e2e/test_terminal_left_sane.py",  # there is no shell to go back to without a terminal
    "redraw": "tests/e2e/test_redrawn.py",  # what was painted over is seen by a terminal alone
    **dict.fromkeys(("open-spool", "filter-spools", "copy-path", "spools"), "tests/tui/test_spools.py"),
}


def busy() -> FakeControl:
    fake = FakeControl(
        [*(claim(n) for n in range(1, 7)), claim(0, Verdict.ALIVE), *(waiting(n) for n in range(120)), written(1),
         replace(waiting(900), key=("held", 900), box=Box.HELD, reason="by memex"),
         replace(waiting(901), key=("trash", 901), box=Box.TRASH, reason="purged")]
    )  # fmt: skip
    fake.cursors = (a_cursor(), a_cursor("email", "advancing"))
    fake.locks = (a_lock(), replace(a_lock(), path="/var/spool/memex/leader.lock", kind="soft", verdict="stale"))
    fake.records = [OperationRecord(f"a{n}", Action.PURGE, NOW - 60 * n, "memex", 3, 3) for n in range(3)]
    return fake


def paused() -> FakeControl:
    fake = busy()
    fake.paused = Pause("root", NOW - 7200, "a schema change")
    return fake


def kept_too_long() -> FakeControl:
    fake = busy()
    fake.rows[-1] = replace(fake.rows[-1], in_box_since=NOW - 40, expires_at=NOW - 10)
    fake.retention = 30.0
    return fake


def lengthy() -> FakeControl:
    fake = busy()
    fake.payloads[("cur", 6)] = b"".join(b'"source" line %d\n' % n for n in range(100))
    return fake


def many() -> FakeControl:
    return FakeControl([claim(n) for n in range(12)])


def numbered() -> FakeControl:
    fake = busy()
    fake.confirm = Confirm.NUMBER
    return fake


def poisoned() -> FakeControl:
    fake = busy()
    fake.poison = 1
    return fake


TimelineStep = tuple[str | Callable[[Driver], object], str]
"""Keys (or an action without a key), and text that is on the screen after them."""


@dataclass(frozen=True)
class Case:
    """``before``: the steps to the place where the key is pressed; ``then``: text that is shown after it, or a condition."""

    before: tuple[TimelineStep, ...]
    then: str | Callable[[Driver], object]
    control: Callable[[], FakeControl] = busy


OVERVIEW: TimelineStep = ("", "1 PROBLEM")
NEW: TimelineStep = ("2", '"source"')
CLAIMS: TimelineStep = ("3", '"source"')
PLAN = (OVERVIEW, ("r", "y requeue 6"))
RESULT = (*PLAN, ("y", "Requeued 6"))
HELD: TimelineStep = ("7", "Aside held 1")
TRASH = (HELD, ("7", "Aside rejected 0"), ("7", "Aside trash 1"))
SOURCES: TimelineStep = ("5", "REVERTED")
LOCKS: TimelineStep = ("6", "Locks 2")
OPERATIONS: TimelineStep = ("z", "Operations 3")


def at(index: int) -> Callable[[Driver], object]:
    """True where the cursor of New is at the message of that number."""
    return lambda driver: f"1795222900000{index:03}" in driver.chosen


def height(driver: Driver) -> int:
    """Lines of the list of New."""
    return sum(" email " in line for line in driver.lines if "─" not in line)


def ready(words: str) -> TimelineStep:
    """The row under the cursor has been read."""
    return "", words


def left(driver: Driver) -> bool:
    return driver.leaving


def undoing(driver: Driver) -> bool:
    return bool(driver.control.planned) and driver.control.planned[-1][0] is Action.UNDO


CASES: dict[str, Case] = {
    "confirm-small": Case(PLAN, "Requeued 6"),
    "confirm-large": Case((OVERVIEW, ("r", "Y requeue 12")), "Requeued 12", many),
    "confirm-number": Case((OVERVIEW, ("r", "type 6 to requeue 6"), ("6", "6_")), "Requeued 6", numbered),
    "force": Case((CLAIMS, ("a", "7 marked"), ("r", "Refused 1")), "by force"),
    "hold-poison": Case((OVERVIEW, ("r", "h hold 1, requeue 5")), "Hold 1, requeue 5 of 6 claims", poisoned),
    "rate": Case(PLAN, "rate limit: _"),
    "copy-command": Case(PLAN, "copied: spooltop requeue /var/spool/memex"),
    "stop": Case((*PLAN, (lambda driver: driver.control.gate.clear(), ""), ("y", "Esc stop")), "stopping"),
    "cancel": Case(PLAN, lambda driver: "1 PROBLEM" in driver.text and not driver.control.applied),
    "undo-result": Case(RESULT, undoing),
    "copy-result": Case(RESULT, "copied: the result of op1"),
    "move-down": Case((NEW,), at(1)),
    "move-up": Case((NEW, ("G", "")), at(118)),
    "scroll-down": Case((CLAIMS, ("enter", "line 3")), lambda driver: "enqueued" not in driver.lines[1], lengthy),
    "scroll-up": Case((CLAIMS, ("enter", "line 3"), ("G", "line 99")), lambda driver: "line 99" not in driver.text, lengthy),
    "next-message": Case((CLAIMS, ("enter", claim(6).id)), claim(5).id),
    "previous-message": Case((CLAIMS, ("j", ""), ("enter", claim(5).id)), claim(6).id),
    "half-page-down": Case((NEW,), lambda driver: at(height(driver) // 2)(driver)),
    "page-down": Case((NEW,), lambda driver: at(height(driver))(driver)),
    "page-up": Case((NEW, ("G", "")), lambda driver: at(119 - height(driver))(driver)),
    "half-page-up": Case((NEW, ("G", "")), lambda driver: at(119 - height(driver) // 2)(driver)),
    "first": Case((NEW, ("G", "")), at(0)),
    "last": Case((NEW,), at(119)),
    "undo": Case((OPERATIONS,), lambda driver: undoing(driver) and driver.control.planned[-1][3] == {"undoes": "a0"}),
    "open-operation": Case((OPERATIONS, ("j", "")), "Operation a1"),
    "copy-operation": Case((OPERATIONS,), "copied: a0"),
    "run": Case((OVERVIEW, ("colon c l a i m s", ":claims")), "Claims 7"),
    "make": Case((OVERVIEW, ("i", "Inject test messages")), "y inject 1"),
    "set": Case((SOURCES, ("e", "Set the cursor of imessage"), ("9 9", "99█")), "y set it"),
    "open": Case((OVERVIEW,), "Claims › claims-dead 6"),
    "leave": Case((OVERVIEW,), left),
    "back": Case((CLAIMS,), "1 PROBLEM"),
    "requeue": Case((OVERVIEW,), "Requeue 6 claims"),
    "purge": Case((("4", "Tmp 1"), ready('"source"')), "Purge 1 file"),
    "hold": Case((NEW,), "Hold 1 message"),
    "release": Case((HELD, ready('"source"')), "Release 1 message"),
    "restore": Case((*TRASH, ready('"source"')), "Restore 1 message"),
    "empty": Case(TRASH, "type 1 to delete 1 for good"),
    "empty-expired": Case(TRASH, "type 1 to delete 1 for good", kept_too_long),
    "set-cursor": Case((SOURCES,), "Set the cursor of imessage"),
    "unlock": Case((LOCKS,), "Remove 1 stale lock"),
    "mute": Case((SOURCES,), "imessage is muted until"),
    "inject": Case((OVERVIEW,), "Inject test messages"),
    "operations": Case((OVERVIEW,), "Operations 3"),
    "pause": Case((OVERVIEW,), "Pause the spool"),
    "resume": Case((OVERVIEW,), "Resume the spool", paused),
    "mark": Case((CLAIMS,), "1 marked"),
    "mark-all": Case((NEW,), "120 marked"),
    "unmark-all": Case((NEW, ("a", "120 marked")), "0 marked"),
    "filter": Case((NEW,), "Enter keeps"),
    "save": Case((CLAIMS,), "Save the payload of"),
    "save-now": Case((CLAIMS, ("S", "Save the payload of")), "bytes to /home/ann/17952228"),
    "find": Case((CLAIMS, ("question_mark", "Move")), "Enter goes to the next match"),
    "which-key": Case((CLAIMS,), "d purges to the trash, r requeues"),
    "sort-menu": Case((CLAIMS, ready("sorted by verdict")), "Sort by"),
    "choose-sort": Case(
        (CLAIMS, ready("sorted by verdict"), ("s", "Sort by"), ("g", "▌verdict"), ("j", "▌held")), "sorted by held"
    ),
    "next-match": Case((NEW, ("slash s r c : e m a i l enter", "match src:email")), at(1)),
    "previous-match": Case((NEW, ("slash s r c : e m a i l enter", "match src:email"), ("G", "")), at(118)),
    "sort-left": Case((CLAIMS, ready("sorted by verdict")), lambda driver: "sorted by verdict" not in driver.text),
    "sort-right": Case((CLAIMS, ready("sorted by verdict")), lambda driver: "sorted by verdict" not in driver.text),
    "sort-invert": Case((CLAIMS, ready("sorted by verdict ↓")), "sorted by verdict ↑"),
    "problems": Case((CLAIMS,), "Claims › problems only 6"),
    "freeze": Case((OVERVIEW,), "FROZEN"),
    "times": Case((OVERVIEW,), "times are shown as local time"),
    "copy": Case((CLAIMS,), f"copied: {claim(6).id}"),
    "who": Case((CLAIMS,), "no process has it open or locked"),
    "follow": Case((CLAIMS,), "being processed by"),
    "ask-again": Case((CLAIMS, ("x", "no process has it")), lambda driver: len(driver.control.asked) == 2),
    "copy-panel": Case((CLAIMS, ("x", "no process has it")), "copied: who has"),
    "look-again": Case((OVERVIEW,), lambda driver: driver.control.rescans == 1),
    "overview": Case((CLAIMS,), "box       depth"),
    "new": Case((CLAIMS,), "New 120"),
    "claims": Case((NEW,), "Claims 7"),
    "tmp": Case((NEW,), "Tmp 1"),
    "cursors": Case((NEW,), "REVERTED"),
    "locks": Case((NEW,), "Locks 2"),
    "aside": Case((NEW,), "Aside held 1"),
    "next-view": Case((OVERVIEW,), "New 120"),
    "consumers": Case((NEW,), "Consumers 7"),
    "previous-view": Case((OVERVIEW,), "Consumers 7"),
    "help": Case((CLAIMS,), "Change (each opens"),
    "palette": Case((OVERVIEW,), "Enter run"),
    "quit": Case((CLAIMS, ("slash x", "/x█")), left),
}


def test_every_command_of_the_table_has_a_case() -> None:
    assert {command.id for command in COMMANDS} == CASES.keys() | ELSEWHERE.keys()
    assert not CASES.keys() & ELSEWHERE.keys()


@pytest.mark.parametrize("id, key", [(command.id, key) for command in COMMANDS if command.id in CASES for key in command.keys])
async def test_the_key_does_what_the_table_says(id: str, key: str) -> None:
    case = CASES[id]
    async with dashboard(case.control(), size=(80, 40)) as driver:
        for keys, words in case.before:
            if isinstance(keys, str):
                await driver.press(*keys.split())
            else:
                keys(driver)
            await driver.see(words)
        await driver.press(key)
        then = case.then
        if isinstance(then, str):
            await driver.see(then)
        else:
            await driver.until(lambda: then(driver), f"what {key} does")
