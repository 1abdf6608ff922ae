"""Lines of the audit log: encoding them for ``Operations``, and reading back those of one operation.

In a spool that is owned by somebody else the log is untrusted input: a line that is not exactly of this form is skipped and
counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quoted

from spooltop.model.audit import AuditLine, AuditLog, AuditTrail
from spooltop.model.jsonl import encode_line, encode_outcomes
from spooltop.model.plan import Item, ItemResult, Outcome, item_columns
from spooltop.model.results import columns_of_results
from spooltop.model.text import bare_all, unescape
from spooltop.model.vocabulary import Box, Json

__all__ = ["after_line", "before_line", "trail_of"]

_LATEST = 253_402_300_800
"""Upper limit of times (the end of the year 9999) and of all other numbers in a line."""


def before_line(head: Mapping[str, Json], items: Sequence[Item]) -> bytes:
    """Encodes the line before a change: the messages that are about to be changed."""
    ids, names, boxes, words = item_columns(items)
    where = {box: f'"{box}/' for box in Box}
    encoded = [
        quoted(said) if said else f'{where[box]}{name}"' for box, name, said in zip(boxes, bare_all(names), words, strict=True)
    ]
    return encode_line(head, ids=[f'"{id}"' for id in bare_all(ids)], names=encoded)


def after_line(head: Mapping[str, Json], results: Sequence[ItemResult]) -> bytes:
    """Encodes the line after a change: the outcome of each item."""
    ids, names, outcomes, reasons, became = columns_of_results(results)
    encoded = [
        f'{{"id":"{id}","name":"{name}",{how},"became":"{now}"}}'
        for id, name, how, now in zip(
            bare_all(ids),
            bare_all(names),
            encode_outcomes(outcomes, reasons),
            bare_all(became),
            strict=True,
        )
    ]
    return encode_line(head, results=encoded)


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
        names=tuple(unescape(name) for name in _list(record, "names") if isinstance(name, str)),
        results=tuple(_result(one) for one in _list(record, "results")),
        trusted=trusted,
    )


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
