"""Makes the rows of messages from their names and lstat(2). Judges nothing."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from spooltop.engine import names as grammar
from spooltop.engine.names import Name, claimable, is_own_id, parse
from spooltop.model import Box, Owner, Row, Tried

from .location import Found, kind_of

# Parses the names of messages by columns. Most names of a thousand differ only in their ids and in the time of their claim, so
# that each form of a name is parsed once, and not each name.

_FORM = re.compile(
    r"(?<![^/])([0-9]{16}+\.P[0-9]{1,10}+R[0-9a-f]{16}+\.[A-Za-z0-9._-]++)((?:,(?!c=)[a-z]=[A-Za-z0-9._%-]++)*)"
    r"(,c=[0-9a-f]{32}\.[0-9]{1,17}+:2,P[0-9]{1,10}+|:(?:2,)?+P[0-9]{1,10}+|)(?=/|\Z)"
)
"""Captures the id, the attributes and the tail of a name with an id of our own."""
_TAIL = re.compile(r",c=[0-9a-f]{32}\.[0-9]{1,17}:2,P[0-9]{1,10}\Z")
TOKEN = slice(3, 35)
"""Place of the token in a tail that has one."""
_START = 34
"""Characters of an id of our own up to the end of its random part, at the least."""
FORMS_AT_MOST = 10_000


class NameForm(NamedTuple):
    """A row of ``NameForms``, after its name."""

    name: str
    id_end: int
    attributes: str
    tail: str


class NameForms(NamedTuple):
    """Columns of names: the length of the id, the attributes with their comma, and the tail of a claim. A name without an id of
    our own has the length 0: it is to be parsed by itself."""

    id_ends: Sequence[int]
    attributes: Sequence[str]
    tails: Sequence[str]

    @classmethod
    def of(cls, names: Sequence[str], *, claimed: bool) -> NameForms:
        """Parses ``names``; ``claimed`` as for ``engine.names.parse``."""
        found: list[tuple[str, str, str]] = _FORM.findall("/".join(names))
        if len(found) != len(names):
            found = [_foreign(name) if (one := _FORM.fullmatch(name)) is None else (one[1], one[2], one[3]) for name in names]
        ids, attributes, tails = zip(*found, strict=True) if found else ((), (), ())
        good = {one: named_like(one) is not None for one in set(attributes)}
        if all(good.values()) and (claimed or not any(tails)):
            return cls(list(map(len, ids)), attributes, tails)
        ours = [good[one] and (claimed or not tail) for one, tail in zip(attributes, tails, strict=True)]
        ends = [len(id) if own else 0 for id, own in zip(ids, ours, strict=True)]
        return cls(ends, attributes, tails)


def tokens_of(tails: Sequence[str]) -> list[str]:
    """The tokens in the tails of claims, "" where there is none."""
    return [tail[TOKEN] if tail[:1] == "," else "" for tail in tails]


def tokens_of_claims(names: Sequence[str]) -> list[str]:
    """The tokens in the names of claims, "" where there is none."""
    return tokens_of(NameForms.of(names, claimed=True).tails)


def _foreign(name: str) -> tuple[str, str, str]:
    tail = _TAIL.search(name)
    return "", "", "" if tail is None or not tail.start() else tail[0]


@lru_cache(FORMS_AT_MOST)  # each delayed message has attributes of its own
def named_like(attributes: str) -> Name | None:
    """Parses a name with an id of our own and these attributes; None where they are not attributes."""
    name = grammar.parse(_EXAMPLE + attributes, claimed=False)
    return name if name.own and name.id == _EXAMPLE else None


_EXAMPLE = "0" * 16 + ".P1R" + "0" * 16 + ".x"


def id_starts(names: Sequence[str], *, claimed: bool) -> list[str]:
    """The beginning of each id, up to its first comma or colon. Equal ids begin in the same way, and nearly all others differ."""
    found = [name[:_START] for name in names]
    joined = "".join(found)
    if not any(end in joined for end in ",:%"):
        return found
    whole = (grammar.parse(name, claimed=claimed).id if "%" in start else name for start, name in zip(found, names, strict=True))
    return [name[:_START].partition(",")[0].partition(":")[0] for name in whole]


def kind_of_file(found: Found) -> str:
    """Describes something that is not a regular file, in words."""
    return f"{kind_of(found)}, not a message"


def _note_of(found: Found | None) -> str:
    """Says what is special about a file; ``found`` None: it has gone since."""
    if found is None:
        return "gone since"
    if not stat.S_ISREG(found.st_mode):
        return kind_of_file(found)
    return f"has {found.st_nlink} names" if found.st_nlink > 1 else ""


def claim_row(name: Name, found: Found | None) -> Row:
    """Returns the row of a name in ``cur``, not judged; ``found`` None: it has gone since. chmod and restores change ctime, so it
    is only a bound for the time of the claim."""
    claimed_at = epoch(name.claimed_us)
    return _row(
        Box.CUR, name, found, claimed_at if claimed_at is not None or found is None else found.st_ctime,
        since_is_bound=claimed_at is None,
        attempt=None if name.attempts is None else name.attempts + 1,
        owner=None if name.pid is None else Owner(pid=name.pid),
        note=_note_of(found),
        not_before=epoch(name.not_before),
        ended=name.ended,
    )  # fmt: skip


def epoch(us: int | None) -> float | None:
    """Turns microseconds into seconds."""
    return None if us is None else us / 1e6


def _row(box: Box, name: Name, found: Found | None, since: float | None, *, key: str = "", **more: Any) -> Row:
    """Makes a row of a name, with what its file tells; without a time in the name it was put when it was last written."""
    put_at = epoch(name.enqueued_us)
    if found is not None:
        more |= {"size": found.st_size, "written_at": found.st_mtime}
        put_at = found.st_mtime if put_at is None else put_at
    return Row(
        (box.value, key or name.raw), box, name.id, name.raw, source=name.source, canary=name.canary, in_box_since=since,
        **{"enqueued_at": put_at} | more,
    )  # fmt: skip


def new_row(raw: str, found: Found | None) -> Row:
    """Returns the row of a message in ``new``; ``found`` None: it has gone since."""
    name = parse(raw, claimed=False)
    too_long = found is not None and stat.S_ISREG(found.st_mode) and not claimable(raw)
    since = epoch(name.enqueued_us)
    if found is not None and (name.attempts or since is None):  # its last move if it was in work before
        since = found.st_ctime if name.attempts else found.st_mtime
    return _row(
        Box.NEW, name, found, since,
        attempt=name.attempts,
        note="its name is too long to be claimed" if too_long else _note_of(found),
        not_before=epoch(name.not_before),
        ended=name.ended,
    )  # fmt: skip


def tmp_row(raw: str, found: Found) -> Row:
    """Returns the row of a file in ``tmp``, not judged; ``raw`` is ``FOLDER/NAME`` in a staging directory. The number at the
    front of a foreign name is not a time, so its mtime counts."""
    name = parse(raw.rpartition("/")[2], claimed=False)
    began = name.enqueued_us / 1e6 if name.enqueued_us is not None and is_own_id(name.id) else found.st_mtime
    return _row(Box.TMP, name, found, began, key=raw, enqueued_at=began, note=_note_of(found))


def mail_row(raw: str, found: Found | None) -> Row:
    """Returns the row of a message in ``cur`` of a mail folder, where nobody claims."""
    return claim_row(parse(raw, claimed=True), found).replace(since_is_bound=True)


def tried_of(waiting: Iterable[str], claims: Iterable[Row]) -> tuple[Tried, ...]:
    """Collects the earlier attempts recorded in the names ``waiting`` in ``new`` and in the names of ``claims``."""
    found = []
    for raw in waiting:
        name = parse(raw, claimed=False)
        if name.attempts and not name.canary:
            found.append(Tried(name.ended, name.not_before is not None, name.id, Box.NEW, name.attempts))
    found += [
        Tried(row.ended, row.not_before is not None, row.id, Box.CUR, row.attempt - 1)
        for row in claims
        if row.attempt is not None and row.attempt > 1 and not row.canary
    ]
    return tuple(found)


def aside_row(box: Box, operation: str, raw: str, *, reason: str = "") -> Row:
    """Returns the row of a name that ``operation`` set aside in ``box``, for ``reason``. Its key is (box,
    ``OPERATION/NAME``)."""
    name = parse(raw, claimed=True)
    return _row(
        box, name, None, None,
        key=f"{operation}/{raw}",
        attempt=name.attempts if name.attempts is None or name.token is None else name.attempts + 1,
        owner=None if name.pid is None else Owner(pid=name.pid),
        reason=reason,
        ended=name.ended if name.token is None else None,  # with the suffix of a claim it is about the attempt before
    )  # fmt: skip
