"""Evaluates the names in ``new`` in bulk. Most names differ only in their time and their random part, so that each form of a name
is parsed once instead of each name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from spooltop.engine import names as grammar
from spooltop.model.filters import query as filters
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box
from spooltop.patterns import pattern
from spooltop.records import replace

__all__ = ["Form", "NameTest", "PerForm", "attributes_of", "forms_of"]

T = TypeVar("T")

_FORM = pattern(r"(?<![^/])([0-9]{16})\.(?:(P)[0-9]{1,10}R[0-9a-f]{16}\.)?+[A-Za-z0-9._-]++(,[^/]*+)?+(?=/|\Z)")
_OWN = pattern(r"(?<![^/])[0-9]{16}+\.P[0-9]{1,10}+R[0-9a-f]{16}+\.[A-Za-z0-9._-]++(,[^/]*+)?+(?=/|\Z)")
_FORMS_AT_MOST = 10_000

Form = tuple[str, str, str]
"""Form of a name: its put time (16 digits, µs), "P" if its id is one of our own (else ""), and its attributes with their
comma."""


def forms_of(text: str, names: Sequence[str]) -> list[Form | None]:
    """The forms of ``names``, which ``text`` holds joined by ``/``; None of a name that is of none."""
    found: list[Form | None] = _FORM.findall(text)
    if len(found) == len(names):
        return found
    return [None if (one := _FORM.fullmatch(name)) is None else (one[1], one[2] or "", one[3] or "") for name in names]


def attributes_of(text: str, names: Sequence[str]) -> list[str]:
    """The attributes of ``names`` with their comma, which ``text`` holds joined by ``/``, where all are of our own; else nothing.
    Half the work of their whole forms."""
    found: list[str] = _OWN.findall(text)
    return found if len(found) == len(names) else []


class PerForm(dict[tuple[str, str], T], Generic[T]):
    """``make`` of a name of each form, by the last two members of the form; its time and its random part mean nothing."""

    def __init__(self, make: Callable[[str], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: tuple[str, str]) -> T:
        if len(self) >= _FORMS_AT_MOST:
            self.clear()  # each delayed message has a form of its own
        own, attributes = key
        value = self[key] = self._make("0" * 16 + (".P1R" + "0" * 16 if own else "") + ".x" + attributes)
        return value


class NameTest:
    """A filter and a selection of messages in ``new``, as far as names decide them. ``older_than`` is of the selection, ``takes``
    the test of all but texts and ages, for a row made by ``row`` out of a name alone; ``more``: there is more than texts."""

    def __init__(
        self,
        query: filters.ByName,
        older_than: float | None,
        takes: Callable[[Row], bool],
        row: Callable[[str], Row],
        now: float,
        *,
        more: bool,
    ) -> None:
        self.texts = query.texts
        self.more = more
        self._takes = takes
        self._row = row
        ages = query.ages if older_than is None else (*query.ages, (filters.OLDER, older_than, True))
        self._by_age = bool(ages)
        self._first, self._behind = _put_between(ages, now)
        self._forms = PerForm(self._of_form)
        self._undecided = False

    @classmethod
    def of(cls, query: ListQuery, now: float, row: Callable[[str], Row]) -> NameTest | None:
        """Makes the test of a query; None where the names are not enough."""
        wanted = filters.parse(query.filter).by_name if query.filter else filters.ByName()
        chosen = query.selection
        if query.box is not Box.NEW or wanted is None or (chosen is not None and (chosen.named or chosen.filter)):
            return None
        rest, more = wanted.rest, bool(wanted.ages) or not wanted.rest.empty or chosen is not None
        if chosen is None:
            return cls(wanted, None, lambda row: rest.match(row, now), row, now, more=more)
        selects = replace(chosen, older_than=None).matcher(now)
        return cls(wanted, chosen.older_than, lambda row: rest.match(row, now) and selects(row), row, now, more=more)

    def _of_form(self, name: str) -> bool | None:
        if not self._takes(self._row(name)):
            return False
        if self._by_age and grammar.parse(name, claimed=False).attempts:
            self._undecided = True
            return None  # what was in work before came back at a time that its name does not tell
        return True

    def split(self, places: Sequence[int], text: str, names: Sequence[str]) -> tuple[Sequence[int], Sequence[int]]:
        """Splits ``places`` in ``names``, which ``text`` holds joined by ``/``, into those accepted (their texts are not tested)
        and those whose file has to be examined."""
        known, first, behind = self._forms, self._first, self._behind
        own = attributes_of(text, names)
        decided = {one: known["P", one] for one in set(own)}
        if own and None not in decided.values():
            if self._by_age and not (first <= min(names) and max(names) < behind):
                return [at for at in places if first <= names[at] < behind and decided[own[at]]], []
            if all(decided.values()):
                return places, []
            return [at for at in places if decided[own[at]]] if any(decided.values()) else [], []
        forms = forms_of(text, names)
        taken = [at for at in places if (form := forms[at]) and known[form[1], form[2]] and first <= form[0] < behind]
        if not self._undecided and None not in forms:
            return taken, []
        return taken, [at for at in places if (form := forms[at]) is None or known[form[1], form[2]] is None]


def _put_between(ages: Iterable[tuple[Callable[[float, float], bool], float, bool]], now: float) -> tuple[str, str]:
    """The first put time (16 digits, µs) that comparisons of ages at ``now`` take, and the one behind the last. What compares an
    age changes its mind once along the times: that place is looked for by halves, and no age is computed of a million."""
    first, behind = 0, 10**16
    for compare, seconds, wanted in ages:

        def takes(us: int, compare: Callable[[float, float], bool] = compare, seconds: float = seconds) -> bool:
            return compare(max(0.0, now - us / 1e6), seconds)

        old, young = takes(0) is wanted, takes(10**16 - 1) is wanted
        change = bisect_left(range(10**16), True, key=lambda us: (takes(us) is wanted) is not old) if old is not young else 0
        if old and not young:
            behind = min(behind, change)
        elif young and not old:
            first = max(first, change)
        elif not old:
            behind = 0
    return f"{first:016d}", f"{behind:016d}" if behind < 10**16 else ":"
