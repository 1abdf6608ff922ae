"""Sample rows of five messengers. A row number of a source always has the same content."""

from __future__ import annotations

import json

__all__ = ["FIELDS", "NEWEST", "SOURCES", "export", "poison", "row"]

SOURCES = ("imessage", "teams", "signal", "email", "messenger")
NEWEST = {"imessage": 89632, "teams": 77120, "signal": 5120, "email": 204510, "messenger": 18003}
"""Value of each cursor at the start of a demo."""
FIELDS = {"imessage": "cursor", "email": "uid"}
"""Sources whose section in the cursor file is an object, and the field of it that is the cursor."""

_WHO = {
    "imessage": ("+49 170 5550134", "+49 171 5550172", "mum"),
    "teams": ("Priya Raman", "Tom Okafor", "build bot"),
    "signal": ("Lena", "climbing group", "Jo"),
    "email": ("billing@example.com", "list@lists.example.org", "anna@example.net"),
    "messenger": ("Uncle Ray", "football parents", "Mia"),
}
_SAID = (
    "running ten minutes late, start without me",
    "did the backup finish last night?",
    "photos from sunday are in the shared folder",
    "the build is green again",
    "can you bring the long ladder?",
    "your invoice for october is attached",
    "re: re: who has the keys?",
    "train is cancelled, taking the next one",
    "happy birthday!",
    "meeting moved to 15:30, same room",
    "call me when you see this",
)


def row(source: str, rowid: int, **more: str) -> bytes:
    """The payload of one row. ``more`` are further fields: ``encoding`` makes consumers reject it, ``picture`` try it again."""
    who = _WHO[source]
    record = {"source": source, "rowid": rowid, "from": who[rowid % len(who)], "text": _SAID[rowid * 7 % len(_SAID)], **more}
    return json.dumps(record, indent=1).encode() + b"\n"


def export(source: str, count: int) -> bytes:
    """The payload of many rows in one, a line each."""
    return b"".join(json.dumps(json.loads(row(source, rowid))).encode() + b"\n" for rowid in range(count))


def poison(rowid: int) -> bytes:
    """The payload of a row that kills every worker: its attachment needs more memory than there is."""
    record = {
        "source": "teams", "rowid": rowid, "from": "Tom Okafor", "text": "the whole scan, sorry about the size",
        "attachment": {"name": "scan.tiff", "width": 200000, "height": 280000},
    }  # fmt: skip
    return json.dumps(record, indent=1).encode() + b"\n"
