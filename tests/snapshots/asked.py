"""Operations on the spool of ``values``, and its messages."""

from __future__ import annotations

import datetime

from spooltop.model.plan import OperationRecord
from spooltop.model.vocabulary import Action, Box, Payload, Row, Verdict

from .values import NOW, ZONE

__all__ = ["operations", "payload"]


def operations() -> list[OperationRecord]:
    return [
        OperationRecord("c41d0a7e92", Action.REQUEUE, NOW - 70, "memex", 3, 2, 1),
        OperationRecord("9be2a60f13", Action.INJECT, NOW - 4100, "memex", 5, 5, why_not_undo="all 5 were done since"),
        OperationRecord("70f3b5d8aa", Action.UNDO, NOW - 86400 * 3 - 400, "root", 300, 300, why_not_undo="it is an undo"),
        OperationRecord("5d1c99e047", Action.PURGE, NOW - 86400 * 3 - 600, "root", 312, 312, undone_by="70f3b5d8aa"),
        OperationRecord("1a88f0c3b6", Action.REQUEUE, NOW - 86400 * 9, "memex", 40, 17, open=True),
    ]


_BODIES = {
    "imessage": b'{\n  "source": "imessage",\n  "rowid": 89633,\n  "from": "+1 555 0100",\n  "text": "see you at 7?"\n}\n',
    "email": b'{\n  "source": "email",\n  "uid": 204511,\n  "subject": "Re: the lift"\n}\n',
}


def _when(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, ZONE).strftime("%Y-%m-%d %H:%M:%S %z")


def payload(row: Row) -> Payload:
    """The message of a row with what a directory spool tells of it."""
    body = b"" if row.size == 0 else _BODIES.get(row.source or "", b'{\n  "source": "%s"\n}\n' % (row.source or "?").encode())
    put = f"{_when(row.enqueued_at or 0)}"
    facts: list[tuple[str, str]] = []
    owner = row.owner
    if row.box is Box.CUR and owner is not None:
        dead = row.verdict is Verdict.DEAD
        tells = "has exited: its presence lock is free" if dead else "holds its presence lock"
        facts += [
            ("enqueued", f"{put} · claimed {_when(row.in_box_since or 0)}"),
            ("owner", f"pid {owner.pid} {owner.command} of {owner.user} on {owner.host}"),
            ("holder", f"pid {owner.pid} ({owner.command}) {tells}"),
        ]
        if dead:
            facts.append(("look up", f"journalctl _PID={owner.pid}"))
    else:
        facts.append(("enqueued", put))
    if row.source:
        facts.insert(1, ("source", row.source))
    if row.box is Box.TMP and owner is not None:
        facts += [("owner", f"pid {owner.pid} on vm"), ("writer", row.evidence)]
    if row.reason:
        facts.append(("set aside", row.reason))
    facts.append(("file", "memex 0640"))
    return Payload(body, max(row.size or 0, len(body)) if body else 0, False, tuple(facts))
