"""Selects the messages of an operation."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ..row import Row
from ..text import escape
from ..vocabulary import Box, Key, Verdict


class Selection(Struct, frozen=True):
    """A choice of messages; all conditions hold together.

    ``ids`` are unescaped ids or whole names; ``keys`` are rows as listed (marks). ``older_than`` is seconds in the box.
    ``filter`` is the grammar of ``model.filters.query``. ``everything`` is ALL. A selection that names nothing selects nothing.
    """

    box: Box | None = None
    ids: tuple[str, ...] | None = None
    keys: tuple[Key, ...] | None = None
    source: str | None = None
    older_than: float | None = None
    verdict: Verdict | None = None
    filter: str = ""
    everything: bool = False

    def matches(self, row: Row, now: float) -> bool:
        """True where all conditions hold for ``row`` at ``now`` (epoch seconds); True for each row where there is no condition.
        Raises ``UsageError`` for a filter that does not parse.

        >>> row = Row(("cur", "7"), Box.CUR, "7", "7,n=1", source="mail", in_box_since=100.0)
        >>> chosen = Selection(box=Box.CUR, source="mail", older_than=60)
        >>> (chosen.matches(row, 170.0), chosen.matches(row, 150.0), Selection(ids=("8",)).matches(row, 170.0))
        (True, False, False)
        """
        return self.matcher(now)(row)

    def matcher(self, now: float) -> Callable[[Row], bool]:
        """The test that ``matches`` makes, with filter and names prepared once for many rows."""
        box, source, verdict, older_than = self.box, self.source, self.verdict, self.older_than
        ids = None if self.ids is None else frozenset(self.ids)
        keys = None if self.keys is None else frozenset(self.keys)
        wanted = None
        if self.filter:
            from .query import parse  # the grammar takes 5 ms to load, and most selections have no filter

            wanted = parse(self.filter)

        def matches(row: Row) -> bool:
            return (
                (box is None or row.box is box)
                and (keys is None or row.key in keys)
                and (ids is None or row.id in ids or row.name in ids)
                and (source is None or row.source == source)
                and (verdict is None or row.verdict is verdict)
                and (older_than is None or self.old_enough(row.in_box_age(now)))
                and (wanted is None or wanted.match(row, now))
            )

        return matches

    def old_enough(self, in_box_age: float | None) -> bool:
        """True if ``in_box_age`` is ``older_than`` or more; False if the age is unknown."""
        return self.older_than is None or (in_box_age is not None and in_box_age >= self.older_than)

    @property
    def named(self) -> bool:
        """True if the messages are named one by one."""
        return self.ids is not None or self.keys is not None

    @property
    def empty(self) -> bool:
        """True if no condition was given at all."""
        return not (
            self.named or self.source or self.older_than is not None or self.verdict or self.filter or self.everything
        )

    def words(self) -> list[str]:
        """Returns the same selection as words of the command line, without ids of single rows."""
        out: list[str] = []
        if self.box is not None:
            out += ["--box", str(self.box)]
        if self.source is not None:
            out += ["--source", escape(self.source)]
        if self.verdict is not None:
            out += ["--verdict", str(self.verdict)]
        if self.older_than is not None:
            out += ["--older-than", f"{self.older_than:.12g}s"]
        if self.filter:
            out += ["--filter", self.filter]
        if self.everything:
            out.append("ALL")
        return out
