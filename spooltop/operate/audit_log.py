"""Lines of the audit log: encoding them for ``Operations``, and reading back those of one operation.

before  the head, ids names
after   the head, ids names outcomes reasons [became]

Where all items have one outcome or reason, the column is that value; ``became`` is left out where all names stay.

In a spool that is owned by somebody else the log is untrusted input: a line that is not exactly of this form is skipped and
counted.
"""

from __future__ import annotations

import json
import os
import pwd
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Annotated, Literal, Self

from msgspec import Meta, Struct
from msgspec.json import decode

from spooltop.errors import AuditFailed, SpooltopError
from spooltop.model.operations.plan import BATCH, Item, ItemResult, Outcome, Plan, item_columns, others_of
from spooltop.model.operations.results import (
    AuditLine,
    AuditLog,
    AuditTrail,
    encode_column,
    encode_line,
    encode_names,
)
from spooltop.model.protocols import Operator
from spooltop.model.target import full_name
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Box, Json

# Identity of the user who makes a change, for the audit log.


def _terminal() -> str | None:
    try:
        return os.ttyname(2)
    except OSError:
        return None  # cron, a pipe: no terminal is a fact and no failure


class Actor(Struct, frozen=True):
    """User who makes a change. ``user`` and ``uid`` are the effective ones; the other fields come from the environment and the
    terminal, None if these do not contain them."""

    user: str
    uid: int
    pid: int
    sudo_user: str | None = None
    ssh_connection: str | None = None
    tty: str | None = None

    @staticmethod
    def here(environ: Mapping[str, str] = os.environ, terminal: Callable[[], str | None] = _terminal) -> Actor:
        """Returns the actor of this process."""
        uid = os.geteuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        return Actor(
            user, uid, os.getpid(), environ.get("SUDO_USER"), environ.get("SSH_CONNECTION"), terminal()
        )  # fmt: skip

    def words(self) -> dict[str, Json]:
        """Returns the members of an audit line."""
        return {
            "user": self.user, "uid": self.uid, "sudo_user": self.sudo_user, "ssh_connection": self.ssh_connection,
            "tty": self.tty, "pid": self.pid,
        }  # fmt: skip


_LATEST = 253_402_300_800
"""Upper limit of times (the end of the year 9999) and of all other numbers in a line."""


def before_line(head: Mapping[str, Json], items: Sequence[Item]) -> bytes:
    """Encodes the line before a change: the messages that are about to be changed."""
    ids, names, boxes, words = item_columns(items)
    where = {box: f"{box}/" for box in Box}
    said = json.dumps(list(words)) if any(words) else ""  # of what is no message; escaped already
    shown = said or encode_names([where[box] + name for box, name in zip(boxes, names, strict=True)])
    return encode_line(head, ids=encode_names(ids), names=shown)


def after_line(head: Mapping[str, Json], results: Sequence[ItemResult]) -> bytes:
    """Encodes the line after a change: the outcome of each item."""
    ids, names, outcomes, reasons, became = zip(*results, strict=True) if results else ((),) * 5
    columns = {"outcomes": encode_column(outcomes), "reasons": encode_column(reasons)}
    if list(became) != list(names):
        columns["became"] = encode_names(became)
    return encode_line(head, ids=encode_names(ids), names=encode_names(names), **columns)


def trail_of(logs: Iterable[AuditLog], operation: str) -> AuditTrail:
    """Collects the lines about ``operation`` from ``logs``, of which the trusted ones come first."""
    found: list[AuditLine] = []
    problems: list[str] = []
    mark = json.dumps(operation).encode()
    for log in logs:
        bad = 0
        for line in log.lines:
            if mark not in line:
                continue
            try:
                decoded = _decode(line, operation, trusted=log.trusted)
            except (ValueError, RecursionError):
                bad += 1
                continue
            if decoded is not None:
                found.append(decoded)
        where = "audit log" if log.trusted else "audit log in the spool"
        if log.unread:
            problems.append(f"the first {log.unread / 1e6:.0f} MB of the {where} were not read")
        if log.torn:
            problems.append(f"the last line of the {where} is cut off: a crash or a full disk")
        if bad:
            problems.append(f"{bad} lines of the {where} are not audit lines and were left out")
    return AuditTrail(tuple(sorted(found, key=lambda line: line.at)), tuple(problems))


def _decode(line: bytes, operation: str, *, trusted: bool) -> AuditLine | None:
    """Decodes an audit line; None for a line of another operation. Raises ``ValueError`` for anything that is not an audit
    line."""
    read = decode(line, type=_Line)
    if read.operation != operation:
        return None
    names = list(map(unescape, read.names))
    results: list[ItemResult] = []
    if read.event == "after":
        ids, became = map(unescape, read.ids), names if read.became is None else map(unescape, read.became)
        outcomes, reasons = (one if isinstance(one, list) else [one] * len(names) for one in (read.outcomes, read.reasons))
        results = list(map(ItemResult._make, zip(ids, names, outcomes, reasons, became, strict=True)))
    return AuditLine(
        read.time, read.event, read.action, read.user, read.uid, read.sudo_user, read.ssh_connection, read.tty, read.pid,
        read.count, read.tried, read.force is True, read.ended, () if results else tuple(names), tuple(results), trusted,
    )  # fmt: skip


_Number = Annotated[int, Meta(ge=-_LATEST, le=_LATEST)]


class _Line(Struct):
    """An audit line as ``before_line`` and ``after_line`` encode it, with who did it."""

    schema: Literal[1]
    operation: str
    time: Annotated[float, Meta(ge=0, lt=_LATEST)]
    event: Literal["before", "after"]
    action: str = ""
    user: str = ""
    uid: _Number | None = None
    sudo_user: str | None = None
    ssh_connection: str | None = None
    tty: str | None = None
    pid: _Number | None = None
    count: _Number = 0
    tried: _Number | None = None
    force: object = False
    ended: str = ""
    ids: list[str] = []
    names: list[str] = []
    outcomes: Outcome | list[Outcome] = []
    reasons: str | list[str] = []
    became: list[str] | None = None


# Audit trail of one operation: a line before each batch, without which nothing is changed, and a line after it.

class OperationAudit:
    """Yields the ``batches`` of an operation and writes their audit lines around them. A context manager: at its end it closes
    the batches, and writes the line for what was announced and did not happen.

    ``options`` are those of the plan as they may be logged. ``copies`` receives a copy of each line without its items (syslog
    lines are limited in length); ``syslog`` receives warnings.
    """

    def __init__(
        self,
        plan: Plan,
        batches: Iterator[Sequence[ItemResult]],
        operator: Operator,
        *,
        options: Mapping[str, Json],
        who: Actor | None,
        clock: Callable[[], float],
        syslog: Callable[[str], None],
        copies: Callable[[str], None] | None,
    ) -> None:
        self._plan = plan
        self._batches = batches
        self._operator = operator
        self._options = options
        self._who = who or Actor.here()
        self._clock = clock
        self._syslog = syslog
        self._copies = copies
        self._announced = 0
        self._tried = 0
        self._waiting = False
        """True while a line before has no line after."""
        self.notes: list[str] = []
        """Notes for the result: what could not be audited, remarks on what was deleted."""

    def __iter__(self) -> Iterator[Sequence[ItemResult]]:
        """Yields each batch after its line is written, and also where that fails: raises ``AuditFailed`` then."""
        while True:
            # The next batch may reach so far; where it is slow it is small, and no divisor of a thousand.
            while self._announced == 0 or self._more():
                self._unless_full(self._announce)
                self._announced += BATCH
                self._waiting = True
            batch = next(self._batches, None)
            if batch is None:
                return
            self._tried += len(batch)
            self._waiting = self._more() or min(self._announced, self._plan.count) > self._tried
            try:
                self._unless_full(self._report, batch)
            except AuditFailed:
                yield batch
                raise
            if self._plan.works_when_full:
                for reason in {one.reason for one in batch if one.outcome is Outcome.DONE and one.reason}:
                    self._warn(reason)
            yield batch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
        if self._waiting:
            self._conclude("" if error is None else str(error) if isinstance(error, SpooltopError) else repr(error))

    def _more(self) -> bool:
        return self._announced < min(self._plan.count, self._tried + BATCH)

    def _unless_full(self, write: Callable[..., None], *what: object) -> None:
        """Writes an audit line. If the disk is full, an operation that works then continues without the line, and a note says
        so."""
        try:
            write(*what)
        except AuditFailed as error:
            if not (self._plan.works_when_full and error.full):
                raise
            self._warn(f"not in the audit log: {error.what}")

    def _warn(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)
            who, plan = self._who, self._plan
            self._syslog(
                f"{who.user} (uid {who.uid}): {plan.action} {plan.operation} of {plan.count} in {escape(plan.target)}: {words}"
            )

    def _announce(self) -> None:
        """Writes the line before a change: the messages that are about to be changed."""
        options: dict[str, Json] = {
            name: value if not isinstance(value, str) else escape(value[:200]) for name, value in self._options.items()
        }
        head = {**self._head("before"), "count": self._plan.count, "options": options}
        self._write(head, before_line(head, self._plan.items[self._announced : self._announced + BATCH]))

    def _report(self, batch: Sequence[ItemResult]) -> None:
        """Writes the line after a change: the outcome of each item."""
        tried, count = self._tried, self._plan.count
        head = {**self._head("after"), "tried": tried, "count": count}
        others = Counter(one.outcome for one in others_of(batch).values())
        done = len(batch) - others[Outcome.SKIPPED] - others[Outcome.FAILED]
        counts = {str(outcome): done if outcome is Outcome.DONE else others[outcome] for outcome in Outcome}
        try:
            # Where more is announced at once, the sync of that line is this one's too.
            self._write(head, after_line(head, batch), counts, sync=not self._more())
        except AuditFailed as error:
            raise AuditFailed(
                f"{tried} of {count} were attempted, but their outcome could not be audited: {error.what}",
                path=error.path,
                advice=error.advice,
                full=error.full,
            ) from error

    def _conclude(self, ended: str) -> None:
        """Writes the line after a change that was announced and never begun, or was cut short."""
        tried, count = self._tried, self._plan.count
        why = escape(ended) or ("stopped" if tried < count else "nothing to do")
        head: dict[str, Json] = {**self._head("after"), "tried": tried, "count": count, "ended": why}
        try:
            self._write(head, after_line(head, ()), {str(outcome): 0 for outcome in Outcome})
        except SpooltopError:
            return  # most likely it ended for the same reason, which is reported

    def _head(self, event: str) -> dict[str, Json]:
        plan = self._plan
        return {
            "schema": 1,
            "time": self._clock(),
            "event": event,
            "operation": plan.operation,
            "action": str(plan.action),
            "target": escape(full_name(plan.target)),
            "force": plan.force,
            **self._who.words(),
        }

    def _write(
        self, head: Mapping[str, Json], line: bytes, counts: Mapping[str, Json] | None = None, *, sync: bool = True
    ) -> None:
        """Writes an audit line. ``head`` is ``line`` without its items; in the copy, ``counts`` is added in their place, the
        number of items by outcome."""
        self._operator.audit(line, sync=sync)
        if self._copies is not None:
            self._copies(json.dumps({**head, **(counts or {})}, separators=(",", ":")))
