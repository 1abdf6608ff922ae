"""Target: the queue that a path or a URL names, as its backend identified it. Its name never holds a secret."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spooltop.records import dataclass, field

from .vocabulary import Action

__all__ = ["Labels", "Target", "full_name", "has_scheme", "without_secrets"]


_SECRET = ("password", "secret", "token")
"""Words in the names of options whose values are not shown."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Words of a kind of queue for what all kinds have. ``who`` stands before the name of a message in the list of its holders.
    Boxes have the same names everywhere: commands and filters take them."""

    who: str = "who has"


@dataclass(frozen=True, slots=True)
class Target:
    """Identified queue.

    ``kind``: spool, mail, cursors, tickets, locks, layout, stream, or what a further backend calls its own. ``display_name`` is
    what was typed, without secrets: it is printed, audited and copied, and opens the same queue again. ``key`` is the same for
    all names of one queue: mutes, kept views and local journals are kept under it. ``where`` belongs to the backend.
    ``read_only`` says why nothing may be changed, ``commands`` how the queue's own program does it (``Capabilities.commands``).
    """

    kind: str
    display_name: str
    key: str
    where: object = None
    read_only: str | None = None
    labels: Labels = field(default_factory=Labels)
    commands: Mapping[Action, str] = field(default_factory=dict)


def has_scheme(name: str) -> bool:
    """True for a URL, False for a path.

    >>> has_scheme("redis://host/0#jobs"), has_scheme("/var/spool/a:b")
    (True, False)
    """
    scheme, mark, _ = name.partition("://")
    return bool(mark) and scheme.replace("+", "").isalnum() and scheme.isascii()


def full_name(name: str) -> str:
    """Returns a name that means the same in every directory: a path becomes absolute, a URL stays.

    >>> full_name("redis://host/0#jobs"), full_name("/var/spool/../spool/jobs")
    ('redis://host/0#jobs', '/var/spool/jobs')
    """
    return name if has_scheme(name) else os.path.abspath(name)


def has_password(name: str) -> bool:
    """True for a URL with a password, or another secret, in it.

    >>> has_password("redis://me:secret@host"), has_password("redis://host?password=x"), has_password("redis://me@host")
    (True, True, False)
    """
    if not has_scheme(name):
        return False
    place, _, options = name.partition("://")[2].partition("#")[0].partition("?")
    secret = any(word in one.partition("=")[0].lower() for one in options.split("&") for word in _SECRET)
    return secret or ":" in place.rpartition("@")[0]


def without_secrets(name: str) -> str:
    """Returns a path as it is, and a URL without its user, and without options that hold a secret.

    >>> without_secrets("redis://me:secret@host:6379/0?password=x&db=1#jobs/workers"), without_secrets("/a@b")
    ('redis://host:6379/0?db=1#jobs/workers', '/a@b')
    """
    if not has_scheme(name):
        return name
    scheme, _, rest = name.partition("://")
    before, hash, fragment = rest.partition("#")
    place, _, options = before.partition("?")
    if "@" in place:  # the last one: a password may hold slashes
        place = place.rpartition("@")[2]
    kept = "&".join(one for one in options.split("&") if one and not any(word in one.lower() for word in _SECRET))
    return f"{scheme}://{place}{'?' if kept else ''}{kept}{hash}{fragment}"
