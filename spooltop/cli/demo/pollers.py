"""Five pollers that share one ``cursors.json``: each asks its source, puts new rows and saves its progress.

Three save only their own section (``CursorFile.advance``). Two read the whole file and write all of it back, which loses what
others saved in between: ``email`` takes a long time, so ``imessage`` is reverted and delivers the same rows again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from spooltop.engine import CursorFile, Spool
from spooltop.errors import SpooltopError
from spooltop.model.vocabulary import Json

from . import speed
from .process_group import Child
from .sample_messages import FIELDS, NEWEST, SOURCES, row

__all__ = ["CURSORS", "LOGS", "Poller", "begin", "pollers", "section"]

CURSORS = "cursors.json"
LOGS = "logs"
_DRAFT = "cursors.json.tmp"
_ROWS_AT_ONCE = 50
_LOG_MOST = 64 << 10
_UNTOUCHED = 4
"""Rounds without new rows for imessage; then four new rows arrive."""

Act = Callable[[Child], None]


def begin(spool: str) -> None:
    """Creates the cursors with their values before the first poll, and the directory of the logs."""
    os.mkdir(os.path.join(spool, LOGS))
    cursors = CursorFile(os.path.join(spool, CURSORS))
    for source in SOURCES:
        cursors.advance(source, section(source, NEWEST[source]))


def section(source: str, value: int) -> Json:
    """Builds the section of ``source`` in the cursor file: some pollers save a number, some an object.

    >>> section("teams", 7), section("imessage", 7)
    (7, {'cursor': 7})
    """
    return {FIELDS[source]: value} if source in FIELDS else value


def pollers(spool: str, began: float) -> dict[str, Act]:
    """Returns the action of each poller by the name of its process. ``began`` is the time (``time.monotonic``) of the first
    round."""
    arrivals: dict[str, Callable[[int], int]] = {
        "teams": lambda _: 2,
        "signal": lambda turn: 18 if turn % 10 == 3 else 3,
        "email": lambda _: 3,
        "messenger": lambda turn: 2 if turn % 5 == 0 else 0,
    }
    at = {"signal": 0.5, "teams": 0.8, "messenger": 1.1, "imessage": 1.9}
    acts: dict[str, Act] = {"poll_imessage.py": lambda child: _imessage(child, Poller(spool, "imessage"), began + at["imessage"])}
    for source in ("teams", "messenger", "signal"):
        acts[f"poll_{source}.py"] = _steadily(spool, source, began + at[source], arrivals[source])
    acts["poll_email.py"] = lambda child: _email(child, Poller(spool, "email"), began, arrivals["email"])
    return acts


@dataclass
class Poller:
    """Reads a source from its cursor on. ``newest`` is the last row of the source."""

    spool: str
    source: str

    def __post_init__(self) -> None:
        self.newest = NEWEST[self.source]
        self._box = Spool(self.spool, durable=False)
        self._cursors = CursorFile(os.path.join(self.spool, CURSORS))
        self._log = Path(self.spool, LOGS, f"poll-{self.source}.log")

    def poll(self) -> int:
        """Puts the new rows, then saves the cursor, only its own section. Returns the number of rows."""
        try:
            value = self._value(self._cursors.read())
            if value != self.newest:
                self._put(value)
                self._cursors.advance(self.source, section(self.source, self.newest))
        except (SpooltopError, OSError) as error:
            self.log(f"poll failed: {error}")
            return 0
        return self._polled(value)

    def poll_whole(self, read: dict[str, object] | None, pause: Callable[[], object] = lambda: None) -> int:
        """Polls like ``poll``, but writes the whole file: ``read`` is an earlier result of ``read_whole``. ``stands`` is called
        while the draft exists, whose name is the same for all pollers."""
        if read is None:
            self.log("poll failed: cursors.json does not read")
            return 0
        try:
            value = self._value(read)
            self._put(value)
            draft = Path(self.spool, _DRAFT)
            draft.write_text(json.dumps(read | {self.source: section(self.source, self.newest)}), encoding="utf-8")
            pause()
            draft.replace(Path(self.spool, CURSORS))
        except (SpooltopError, OSError) as error:
            self.log(f"poll failed: {error}")
            return 0
        return self._polled(value)

    def read_whole(self) -> dict[str, object] | None:
        try:
            found = json.loads(Path(self.spool, CURSORS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None  # the poll says so
        return found if isinstance(found, dict) else None

    def log(self, line: str) -> None:
        """Appends a line to the log. A log that has grown too long is renamed to ``….log.1`` first."""
        try:
            if self._log.exists() and self._log.stat().st_size > _LOG_MOST:
                self._log.replace(self._log.with_suffix(".log.1"))
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        except OSError:
            return  # a log on a full disk: the poll went well all the same

    def _value(self, cursors: Mapping[str, object]) -> int:
        value = cursors.get(self.source)
        if isinstance(value, dict):
            value = value.get(FIELDS.get(self.source, ""))
        usable = isinstance(value, int) and 0 <= value <= self.newest
        return max(int(str(value)), self.newest - _ROWS_AT_ONCE) if usable else self.newest

    def _put(self, value: int) -> None:
        self._box.put_many([row(self.source, rowid) for rowid in range(value + 1, self.newest + 1)], source=self.source)

    def _polled(self, value: int) -> int:
        new = self.newest - value
        at = f"cursor {value} -> {self.newest}" if new else f"cursor={value}"
        self.log(f"poll ok: {new} new ({at})")
        return new


def _turns(child: Child, first: float) -> Iterator[int]:
    """Counts the polls from ``first`` on as they become due; polls that were missed are skipped."""
    for turn in count(max(0, int((time.monotonic() - first) / speed.POLL))):
        due = first + turn * speed.POLL
        if time.monotonic() < due + speed.POLL:
            if not child.until(due):
                return
            yield turn


def _steadily(spool: str, source: str, first: float, arrive: Callable[[int], int]) -> Act:
    every = round(speed.ROUND / speed.POLL)

    def act(child: Child) -> None:
        poller = Poller(spool, source)
        for turn in _turns(child, first):
            if turn % every == 0:
                poller.newest += arrive(turn // every)
            if source == "signal":
                poller.poll_whole(poller.read_whole())
            else:
                poller.poll()

    return act


def _imessage(child: Child, poller: Poller, first: float) -> None:
    """Adds four rows once. ``email`` is the reason that they are new again and again."""
    still = 0
    for turn in _turns(child, first):
        if turn == 0:
            continue  # a look or two at the old value first
        if turn == 1 or still > _UNTOUCHED * speed.ROUND / speed.POLL:
            poller.newest += 4
        still = 0 if poller.poll() else still + 1


def _email(child: Child, poller: Poller, began: float, arrive: Callable[[int], int]) -> None:
    """Reads the whole file early in a round, then slowly reads the mail, and writes the whole file back."""
    turn = max(0, int((time.monotonic() - began) / speed.ROUND))
    while child.until(began + turn * speed.ROUND + speed.EMAIL_READS):
        read = poller.read_whole()
        turn += 1
        if not child.until(began + turn * speed.ROUND + speed.EMAIL_WRITES - speed.DRAFT_STANDS):
            return
        poller.newest += arrive(turn)
        poller.poll_whole(read, lambda: child.wait(speed.DRAFT_STANDS))
