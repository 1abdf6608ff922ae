"""Lines of the audit log: encoding them for ``Operations``, and reading back those of one operation.

before  the head, ids names
after   the head, ids names outcomes reasons [became]

Where all items have one outcome or reason, the column is that value; ``became`` is left out where all names stay. Earlier
versions wrote ``results``, an object for each item.

In a spool that is owned by somebody else the log is untrusted input: a line that is not exactly of this form is skipped and
counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from spooltop.errors import AuditFailed, SpooltopError
from spooltop.model.operations.plan import BATCH, Item, ItemResult, Outcome, Plan, item_columns
from spooltop.model.operations.results import (
    AuditLine,
    AuditLog,
    AuditTrail,
    columns_of_results,
    encode_column,
    encode_line,
    encode_names,
)
from spooltop.model.protocols import Operator
from spooltop.model.target import full_name
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Box, Json

from .actor import Actor

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
    ids, names, outcomes, reasons, became = columns_of_results(results)
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
    record = json.loads(line)
    if not isinstance(record, dict) or record.get("schema") != 1:
        raise ValueError("not an audit line")
    if record.get("operation") != operation:
        return None
    at, event = record.get("time"), record.get("event")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at < _LATEST or event not in ("before", "after"):
        raise ValueError("no time or no event")
    return AuditLine(
        at=float(at),
        event=event,
        action=_word(record, "action") or "",
        user=_word(record, "user") or "",
        uid=_number(record, "uid"),
        sudo_user=_word(record, "sudo_user"),
        ssh_connection=_word(record, "ssh_connection"),
        tty=_word(record, "tty"),
        pid=_number(record, "pid"),
        count=_number(record, "count") or 0,
        tried=_number(record, "tried"),
        force=record.get("force") is True,
        ended=_word(record, "ended") or "",
        names=tuple(unescape(name) for name in _list(record, "names") if isinstance(name, str)) if event == "before" else (),
        results=tuple(map(_result, _rows(record))) if event == "after" else (),
        trusted=trusted,
    )


def _rows(record: dict[str, object]) -> Iterable[object]:
    """Returns an object for each result of a line."""
    if "results" in record:
        return _list(record, "results")
    names = _list(record, "names")
    found = ({"became": names, **record}.get(key) for key in _COLUMNS)
    columns = [column if isinstance(column, list) else [column] * len(names) for column in found]
    return (dict(zip(_COLUMNS.values(), row, strict=True)) for row in zip(*columns, strict=True))


_COLUMNS = {"ids": "id", "names": "name", "outcomes": "outcome", "reasons": "reason", "became": "became"}
"""The columns of results, and the fields of an item."""


def _result(record: object) -> ItemResult:
    if not isinstance(record, dict):
        raise ValueError("no result")
    id, name, became, reason = (_word(record, field) or "" for field in ("id", "name", "became", "reason"))
    return ItemResult(unescape(id), unescape(name), Outcome(str(record.get("outcome"))), reason, unescape(became))


def _word(record: dict[str, object], field: str) -> str | None:
    value = record.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{field} is not text")
    return value


def _number(record: dict[str, object], field: str) -> int | None:
    value = record.get(field)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LATEST):
        raise ValueError(f"{field} is not a number")
    return value


def _list(record: dict[str, object], field: str) -> list[object]:
    value = record.get(field, [])
    if not isinstance(value, list):
        raise ValueError(f"{field} is not a list")
    return value


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
        outcomes = columns_of_results(batch).outcomes
        counts = {str(outcome): outcomes.count(outcome) for outcome in Outcome}
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
