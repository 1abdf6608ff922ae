"""Parses the names of messages by columns. Most names of a thousand differ only in their ids and in the time of their claim, so
that each form of a name is parsed once, and not each name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

from spooltop.engine import names as grammar
from spooltop.engine.names import Name
from spooltop.patterns import pattern

__all__ = ["NameForms", "id_starts", "named_like", "tokens_of", "tokens_of_claims"]

_FORM = pattern(
    r"(?<![^/])([0-9]{16}+\.P[0-9]{1,10}+R[0-9a-f]{16}+\.[A-Za-z0-9._-]++)((?:,(?!c=)[a-z]=[A-Za-z0-9._%-]++)*)"
    r"(,c=[0-9a-f]{32}\.[0-9]{1,17}+:2,P[0-9]{1,10}+|:(?:2,)?+P[0-9]{1,10}+|)(?=/|\Z)"
)
"""Captures the id, the attributes and the tail of a name with an id of our own."""
_TAIL = pattern(r",c=[0-9a-f]{32}\.[0-9]{1,17}:2,P[0-9]{1,10}\Z")
_TOKEN_AT = 3
"""Place of the token in a tail that has one."""
_TOKEN = slice(_TOKEN_AT, _TOKEN_AT + 32)
_START = 34
"""Characters of an id of our own up to the end of its random part, at the least."""
_FORMS_AT_MOST = 10_000


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

    def only(self, mask: Sequence[object]) -> NameForms:
        """Keeps the names that ``mask`` selects."""
        return NameForms._make([list(compress(column, mask)) for column in self])

    def token_places(self, names: Sequence[str]) -> list[int]:
        """The place of the token in each of the ``names`` of these forms, 0 where there is none."""
        return [len(name) - len(tail) + _TOKEN_AT if tail[:1] == "," else 0 for name, tail in zip(names, self.tails, strict=True)]

    def bases(self, names: Sequence[str]) -> list[str]:
        """The claimed ``names`` of these forms without their tails."""
        columns = zip(names, self.id_ends, self.tails, strict=True)
        return [name[: len(name) - len(tail)] if end else grammar.parse(name, claimed=True).base for name, end, tail in columns]


def tokens_of(tails: Sequence[str]) -> list[str]:
    """The tokens in the tails of claims, "" where there is none."""
    return [tail[_TOKEN] if tail[:1] == "," else "" for tail in tails]


def tokens_of_claims(names: Sequence[str]) -> list[str]:
    """The tokens in the names of claims, "" where there is none."""
    return tokens_of(NameForms.of(names, claimed=True).tails)


def _foreign(name: str) -> tuple[str, str, str]:
    tail = _TAIL.search(name)
    return "", "", "" if tail is None or not tail.start() else tail[0]


_like: dict[str, Name | None] = {}


def named_like(attributes: str) -> Name | None:
    """Parses a name with an id of our own and these attributes; None where they are not attributes."""
    known = _like.get(attributes, ...)
    if known is not ...:
        return known
    if len(_like) >= _FORMS_AT_MOST:
        _like.clear()  # each delayed message has a form of its own
    name = grammar.parse(_EXAMPLE + attributes, claimed=False)
    made = _like[attributes] = name if name.own and name.id == _EXAMPLE else None
    return made


_EXAMPLE = "0" * 16 + ".P1R" + "0" * 16 + ".x"


def id_starts(names: Sequence[str], *, claimed: bool) -> list[str]:
    """The beginning of each id, up to its first comma or colon. Equal ids begin in the same way, and nearly all others differ."""
    found = [name[:_START] for name in names]
    joined = "".join(found)
    if not any(end in joined for end in ",:%"):
        return found
    whole = (grammar.parse(name, claimed=claimed).id if "%" in start else name for start, name in zip(found, names, strict=True))
    return [name[:_START].partition(",")[0].partition(":")[0] for name in whole]
