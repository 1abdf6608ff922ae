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
    told = [
        quoted(said) if said else f'{where[box]}{name}"' for box, name, said in zip(boxes, bare_all(names), words, strict=True)
    ]
    return encode_line(head, ids=[f'"{id}"' for id in bare_all(ids)], names=told)


def after_line(head: Mapping[str, Json], results: Sequence[ItemResult]) -> bytes:
    """Encodes the line after a change: the outcome of each item."""
    ids, names, outcomes, reasons, became = columns_of_results(results)
    told = [
        f'{{"id":"{id}","name":"{name}",{how},"became":"{now}"}}'
        for id, name, how, now in zip(
            bare_all(ids),
            bare_all(names),
            encode_outcomes(outcomes, reasons),
            bare_all(became),
            strict=True,
        )
    ]
    return encode_line(head, results=told)


def trail_of(logs: Iterable[AuditLog], operation: str) -> AuditTrail:
    """Collects the lines about ``operation`` from ``logs``, of which the trusted ones come first."""
    found: list[AuditLine] = []
    troubles: list[str] = []
    mark = json.dumps(operation).encode()
    for log in logs:
        bad = 0
        for line in log.lines:
            if mark not in line:
                continue
            try:
                told = _decode(line, operation, trusted=log.trusted)
            except (ValueError, RecursionError):
                bad += 1
                continue
            if told is not None:
                found.append(told)
        where = "audit log" if log.trusted else "audit log in the spool"
        if log.unread:
            troubles.append(f"the first {log.unread / 1e6:.0f} MB of the {where} were not read")
        if log.torn:
            troubles.append(f"the last line of the {where} is cut off: a crash or a full disk")
        if bad:
            troubles.append(f"{bad} lines of the {where} are not audit lines and were left out")
    return AuditTrail(tuple(sorted(found, key=lambda line: line.at)), tuple(troubles))


def _decode(line: bytes, operation: str, *, trusted: bool) -> AuditLine | None:
    """Decodes an audit line; None for a line of another operation. Raises ``ValueError`` for anything that is not an audit
    line."""
    told = json.loads(line)
    if not isinstance(told, dict) or told.get("schema") != 1:
        raise ValueError("not an audit line")
    if told.get("operation") != operation:
        return None
    at, event = told.get("time"), told.get("event")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at < _LATEST or event not in ("before", "after"):
        raise ValueError("no time or no event")
    return AuditLine(
        at=float(at),
        event=event,
        action=_word(told, "action") or "",
        user=_word(told, "user") or "",
        uid=_number(told, "uid"),
        sudo_user=_word(told, "sudo_user"),
        ssh_connection=_word(told, "ssh_connection"),
        tty=_word(told, "tty"),
        pid=_number(told, "pid"),
        count=_number(told, "count") or 0,
        tried=_number(told, "tried"),
        force=told.get("force") is True,
        ended=_word(told, "ended") or "",
        names=tuple(unescape(name) for name in _list(told, "names") if isinstance(name, str)),
        results=tuple(_result(one) for one in _list(told, "results")),
        trusted=trusted,
    )


def _result(told: object) -> ItemResult:
    if not isinstance(told, dict):
        raise ValueError("no result")
    id, name, became, reason = (_word(told, field) or "" for field in ("id", "name", "became", "reason"))
    return ItemResult(unescape(id), unescape(name), Outcome(str(told.get("outcome"))), reason, unescape(became))


def _word(told: dict[str, object], field: str) -> str | None:
    value = told.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{field} is not text")
    return value


def _number(told: dict[str, object], field: str) -> int | None:
    value = told.get(field)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LATEST):
        raise ValueError(f"{field} is not a number")
    return value


def _list(told: dict[str, object], field: str) -> list[object]:
    value = told.get(field, [])
    if not isinstance(value, list):
        raise ValueError(f"{field} is not a list")
    return value
