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
from collections.abc import Iterable, Mapping, Sequence

from spooltop.model.operations.plan import Item, ItemResult, Outcome, item_columns
from spooltop.model.operations.results import (
    AuditLine,
    AuditLog,
    AuditTrail,
    columns_of_results,
    encode_column,
    encode_line,
    encode_names,
)
from spooltop.model.text import unescape
from spooltop.model.vocabulary import Box, Json

__all__ = ["after_line", "before_line", "trail_of"]

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
