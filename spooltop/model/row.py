"""Rows of a list of messages, and payloads."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from .units import since
from .vocabulary import Box, Key, Owner, Verdict


class Row(Struct, frozen=True):
    """A message (or file) in one box.

    ``id`` and ``name`` are as ``os.fsdecode`` gives them and go through ``escape`` before anyone reads them. Times are epoch
    seconds, None if not known: ``enqueued_at`` when it was put, ``in_box_since`` when it came into this box (``cur``: claimed; an
    upper bound for claims of other consumers, ``since_is_bound``; ``tmp``: begun, according to our own names, else last written).
    ``size`` is in bytes. ``attempt`` is the number of attempts, including the current one, None if they are not counted.
    ``evidence`` gives the grounds of the verdict in words. ``note`` is a fault of the file itself ("a fifo, not a message").
    """

    key: Key
    box: Box
    id: str
    name: str
    size: int | None = None
    enqueued_at: float | None = None
    in_box_since: float | None = None
    since_is_bound: bool = False
    source: str | None = None
    attempt: int | None = None
    verdict: Verdict | None = None
    evidence: str = ""
    owner: Owner | None = None
    note: str = ""
    not_before: float | None = None
    canary: bool = False
    written_at: float | None = None
    reason: str = ""
    """Why it was set aside (``held``, ``rejected``, ``trash``)."""
    expires_at: float | None = None
    """When its retention in the trash ends; None: never."""
    ended: str | None = None
    """End of the last attempt (``exit-1``, ``timeout``, ``died``, the class of an exception); None if unknown."""

    def judged(self, verdict: Verdict | None, evidence: str, owner: Owner | None) -> Row:
        """Returns a copy with another verdict."""
        return replace(self, verdict=verdict, evidence=evidence, owner=owner)

    def age(self, now: float) -> float | None:
        """Seconds since it was put, never negative; None where not known."""
        return since(self.enqueued_at, now)

    def in_box_age(self, now: float) -> float | None:
        """Seconds in this box, never negative; None where not known."""
        return since(self.in_box_since, now)

    def expired(self, now: float) -> bool:
        """True if it is in the trash for longer than it is kept."""
        return self.expires_at is not None and self.expires_at <= now


class Payload(Struct, frozen=True):
    """The beginning of a message: ``data`` has at most the requested bytes, ``size`` is that of the whole in bytes. Names of
    its files, where it is several, stand in ``data`` and do not count."""

    data: bytes
    size: int
    truncated: bool
    facts: tuple[tuple[str, str], ...] = ()
    """Lines for the detail: (label, text), for example ("owner", "pid 4312 of this host has exited")."""
