"""Which messages an operation is about."""

from __future__ import annotations

from dataclasses import dataclass

from .vocabulary import Box, Key, Verdict

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of messages; all conditions hold together.

    ``ids`` are unescaped ids; ``keys`` are rows as listed (marks). ``older_than`` is seconds in the box. ``filter`` is the
    grammar of ``model.query``. ``everything`` is ALL. A selection that names nothing selects nothing.
    """

    box: Box | None = None
    ids: tuple[str, ...] | None = None
    keys: tuple[Key, ...] | None = None
    source: str | None = None
    older_than: float | None = None
    verdict: Verdict | None = None
    filter: str = ""
    everything: bool = False

    def old_enough(self, in_box_age: float | None) -> bool:
        """True where ``in_box_age`` is ``older_than`` or more; False where nobody knows how long it has been there."""
        return self.older_than is None or (in_box_age is not None and in_box_age >= self.older_than)

    @property
    def named(self) -> bool:
        """True where the messages are named one by one."""
        return self.ids is not None or self.keys is not None

    @property
    def empty(self) -> bool:
        """True where no condition was given at all."""
        return not (
            self.named or self.source or self.older_than is not None or self.verdict or self.filter or self.everything
        )

    def words(self) -> list[str]:
        """The same as words of the command line, without ids of single rows."""
        out: list[str] = []
        if self.box is not None:
            out += ["--box", str(self.box)]
        if self.source is not None:
            out += ["--source", self.source]
        if self.verdict is not None:
            out += ["--verdict", str(self.verdict)]
        if self.older_than is not None:
            out += ["--older-than", f"{self.older_than:g}s"]
        if self.filter:
            out += ["--filter", self.filter]
        if self.everything:
            out.append("ALL")
        return out
