"""Change events of the boxes, as a look takes them. A command that looks once takes an empty report and loads no watcher."""

from __future__ import annotations

from collections.abc import Mapping, Set

from spooltop.model.vocabulary import Box
from spooltop.records import dataclass, field

__all__ = ["EventBatch", "EventReport"]


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Names added and deleted at about one moment (``at``: epoch seconds), by box and unordered. ``back`` holds the names that
    were both added to ``new`` and deleted from it and are there at the end; None where that is not known. ``late``: all of it may
    have happened seconds earlier, because this process was stopped or not scheduled."""

    at: float
    added: Mapping[Box, set[str]]
    deleted: Mapping[Box, set[str]]
    back: Set[str] | None = None
    late: bool = False
    back_in_cur: Set[str] = frozenset()
    """The same for ``cur``; empty where that is not known."""
    repeats: Mapping[Box, Mapping[str, int]] = field(default_factory=dict)
    """Number of times each name was added after the first time, by box."""
    gone_again: Mapping[Box, Mapping[str, int]] = field(default_factory=dict)
    """Number of times each name was deleted after the first time, by box."""

    def times_added(self, box: Box, name: str) -> int:
        """Returns how often ``name``, one of ``added``, was added."""
        return 1 + self.repeats.get(box, {}).get(name, 0)

    def times_deleted(self, box: Box, name: str) -> int:
        """Returns how often ``name``, one of ``deleted``, was deleted."""
        return 1 + self.gone_again.get(box, {}).get(name, 0)


@dataclass(frozen=True, slots=True)
class EventReport:
    """Events since the last ``take``. ``exact`` is False if some may be missing. ``listening`` is False if nothing listens now:
    ``reason`` says why, and is empty while listening begins. ``restarted``: something was lost, so everything has to be listed
    again. ``until``: the events up to then are included (epoch seconds); None before listening began."""

    batches: tuple[EventBatch, ...] = ()
    exact: bool = False
    listening: bool = False
    reason: str = ""
    restarted: bool = False
    until: float | None = None
