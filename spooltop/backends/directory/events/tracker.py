"""Tracks a few messages by their ids: through change events, judged claims, the set-aside boxes, and scans of ``new``.

A name from an event is looked up, so a location is always true. Only the claim, who made it and when, rests on the events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import Literal

from msgspec import Struct

from spooltop.engine import names as grammar
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.plan import TrackedMessage
from spooltop.model.vocabulary import Box, Row, Verdict

from ...journal.log_store import JOURNAL, LogFiles, LogLines, SpoolLogs
from ..scan import BoxScan, SetAsideBoxes, put_us, quick_enqueued_us
from ..storage.rows import epoch
from .inotify import Events

# Reads the moves that operators announced in the journal since the last look. Such a move is not flow. An intent line is
# written and synced before its batch is moved, so it is there when the change events of these moves are.

_AT_MOST = 64 << 20
"""Bytes of the journal that one look reads. Earlier ones are skipped."""
_REMEMBERED = 200_000
"""Names that are remembered, newest first: the change events of their moves come within a look or two."""
Move = Literal["requeued", "put back", "out of new", "out of cur", "claim"]
"""A name in ``new`` that was a claim, or had been set aside; a name that leaves ``new``; a claim that is moved or deleted; a name
in ``cur`` that an undo puts back."""


class OperatorMoves:
    """Exact names that operators move, each as often as it was announced and not yet seen to happen."""

    def __init__(self, files: LogFiles) -> None:
        self._files = files
        self._newest: dict[bool, int] = {}
        self._announced: dict[tuple[Move, str], int] = {}

    def take(self, move: Move, name: str, many: int = 1) -> int:
        """Returns how many of the ``many`` observed moves of ``name`` an operator made, and deducts them from what was
        announced."""
        left = self._announced.pop((move, name), 0)
        if left > many:
            self._announced[move, name] = left - many
        return min(left, many)

    def look(self, dirs: SpoolDirs) -> None:
        """Reads what was added since the last look; the first look only notes where the journals end."""
        with suppress(OSError), closing(SpoolLogs(dirs, self._files)) as logs:  # what is closed to this user is not read
            for stored in logs.read(JOURNAL):
                with suppress(OSError):
                    self._follow(stored.trusted, stored.lines)
        for trusted in (True, False):
            self._newest.setdefault(trusted, 0)

    def _follow(self, trusted: bool, lines: LogLines) -> None:
        before, newest = self._newest.get(trusted), 0
        added: list[bytes] = []
        size = 0
        with closing(iter(lines)) as newest_first:
            for line in newest_first:
                known, size = hash(line), size + len(line)
                newest = newest or known
                if before is None or known == before or size > _AT_MOST:
                    break
                added.append(line)
        self._newest[trusted] = newest or before or 0
        for line in reversed(added):
            self._add(line)

    def _add(self, line: bytes) -> None:
        if b'"line":"intent"' not in line[:200]:
            return
        from ...journal.record_log import decode
        from ..journal import MOVES, MoveIntent  # loads all of the journal, which most looks find no line in

        try:
            record = decode(line, MOVES)
        except (ValueError, RecursionError):
            return  # anybody may have written it; who undoes says so
        for run in record.moves if isinstance(record, MoveIntent) else ():
            box, to_box = (place and place[0] for place in (run.source_folder, run.target_folder))
            if to_box is Box.NEW and box is not None:  # what an operator puts there has arrived
                self._announce("requeued" if box is Box.CUR else "put back", run.target_names)
            if box is Box.NEW:
                self._announce("out of new", run.names)
            elif box is Box.CUR:
                self._announce("out of cur", run.names)
            if to_box is Box.CUR:
                self._announce("claim", run.target_names)
        # All at once: a dict looks for its first name among all that were deleted before it.
        for known in list(islice(self._announced, max(0, len(self._announced) - _REMEMBERED))):
            del self._announced[known]

    def _announce(self, move: Move, names: Iterable[str]) -> None:
        for name in names:
            self._announced[move, name] = self._announced.get((move, name), 0) + 1


TRACKED_AT_MOST = 1_000
_SETTLED = 2.0
"""Seconds for which a message must be nowhere before it counts as gone, unless an event reported that it left. Boxes are scanned
one after the other, and each at most once a second."""


class _Track(Struct):
    """State of one tracked message: when it was last seen anywhere, the last names known from events and looks, its last claim,
    when it left that claim, and since when it has been nowhere."""

    seen_at: float
    new: str | None = None
    cur: str | None = None
    tmp: str | None = None
    claimed_at: float | None = None
    pid: int | None = None
    left_at: float | None = None
    missing_at: float | None = None
    position: int | None = None
    verdict: Verdict | None = None


class MessageTracker:
    """``in_box`` returns whether a name is in a box now. Canaries are remembered before anybody asks for them, other messages
    only from then on."""

    def __init__(self, in_box: Callable[[Box, str], bool], set_aside: SetAsideBoxes) -> None:
        self._in_box = in_box
        self._set_aside = set_aside
        self._tracks: dict[str, _Track] = {}
        # A canary exists to be tracked, and is most likely gone before anybody could ask for its id.
        self._canaries: dict[str, _Track] = {}
        self._since = 0.0
        self._searched_scan = -1
        self._counted: tuple[int, frozenset[str]] | None = None
        self._aside: dict[str, Box] = {}
        self._aside_generation = -1

    def add_events(self, batches: Iterable[Events]) -> None:
        """Takes in the events since the last look."""
        for batch in batches:
            for raw in self._relevant(batch.added.get(Box.NEW, ())):
                name = grammar.parse(raw, claimed=False)
                if name.canary and name.id not in self._tracks and name.id not in self._canaries:
                    if len(self._canaries) == TRACKED_AT_MOST:
                        del self._canaries[next(iter(self._canaries))]
                    self._canaries[name.id] = _Track(batch.at)
                if (track := self._track(name.id)) is not None:
                    track.new = raw
            if not self._tracks and not self._canaries:
                continue
            for raw in self._relevant(batch.added.get(Box.CUR, ())):
                name = grammar.parse(raw, claimed=True)
                if (track := self._track(name.id)) is not None:
                    self._claimed(track, raw, batch.at if name.claimed_us is None else name.claimed_us / 1e6, name.pid)
            for raw in self._relevant(batch.deleted.get(Box.CUR, ())):
                if (track := self._track(grammar.parse(raw, claimed=True).id)) is not None and track.cur == raw:
                    track.left_at = batch.at

    def _relevant(self, raws: Iterable[str]) -> Iterable[str]:
        """Selects names that may belong to a tracked message. If no message is tracked, only canaries are selected, so that
        millions of names are not parsed."""
        return raws if self._tracks else [raw for raw in raws if ",x=1" in raw]

    def _track(self, id: str) -> _Track | None:
        return self._tracks.get(id) or self._canaries.get(id)

    def where(
        self, ids: Sequence[str], since: float, now: float, new: BoxScan, rows: Iterable[Row], times: Mapping[str, int], *,
        current: bool,
    ) -> dict[str, TrackedMessage]:  # fmt: skip
        """Locates the first ``TRACKED_AT_MOST`` of ``ids``; all other messages are no longer tracked. Claims that began before
        ``since`` do not count. ``new``, ``rows`` (claims and files in ``tmp``) and ``times`` (µs of names that hold no time) are
        those of the last look; ``current``: ``new`` has not changed since it was scanned."""
        ids = ids[:TRACKED_AT_MOST]
        if any(id not in self._tracks for id in ids):
            self._searched_scan = -1
        self._tracks = {id: self._tracks.get(id) or self._canaries.pop(id, None) or _Track(now) for id in ids}
        self._since = since
        if not ids:
            return {}
        for row in rows:
            if (track := self._tracks.get(row.id)) is None:
                continue
            if row.box is Box.TMP:
                track.tmp = row.name
            else:
                self._claimed(track, row.name, row.in_box_since, row.owner.pid if row.owner is not None else None)
                track.verdict = row.verdict
        self._find(new)
        boxes = {id: self._box(id, track) for id, track in self._tracks.items()}
        self._count_older({id for id, box in boxes.items() if box is Box.NEW}, new, times)
        return {id: self._tracked(id, boxes[id], now, new, current) for id in self._tracks}

    def _claimed(self, track: _Track, raw: str, at: float | None, pid: int | None) -> None:
        if raw == track.cur or (track.claimed_at is not None and (at or 0.0) < track.claimed_at):
            return
        track.cur, track.left_at = raw, None
        if at is not None and at >= self._since:
            track.claimed_at, track.pid = at, pid

    def _find(self, new: BoxScan) -> None:
        """Searches the scan for messages that no event named, once for each scan."""
        if new.number == self._searched_scan:
            return
        self._searched_scan = new.number
        unknown = {id for id, track in self._tracks.items() if track.new is None}
        starts = {grammar.encode_value(id) for id in unknown} | unknown
        if not unknown:
            return
        for raw in new.names:
            if (raw in starts or raw.partition(",")[0] in starts) and (id := grammar.parse(raw, claimed=False).id) in unknown:
                self._tracks[id].new = raw

    def _box(self, id: str, track: _Track) -> Box | None:
        for box, raw in ((Box.CUR, track.cur), (Box.NEW, track.new), (Box.TMP, track.tmp)):
            if raw is not None and self._in_box(box, raw):
                return box
        if self._set_aside.generation != self._aside_generation:
            self._aside, self._aside_generation = self._set_aside.ids(), self._set_aside.generation
        return self._aside.get(id)

    def _count_older(self, waiting: set[str], new: BoxScan, times: Mapping[str, int]) -> None:
        """Sets the position of each waiting message: one more than the number of older messages in ``new``. Consumers take
        messages by time, then by name. Does nothing if neither the scan nor the messages have changed."""
        if not waiting or (new.number, frozenset(waiting)) == self._counted:
            return
        self._counted = (new.number, frozenset(waiting))
        mine: list[tuple[int, str, str]] = []
        for id in waiting:
            raw = self._tracks[id].new or ""
            when = put_us(raw, times)
            self._tracks[id].position = None
            if when is not None:
                mine.append((when, raw, id))
        mine.sort()
        keys = [(when, raw) for when, raw, _ in mine]
        if not keys:
            return
        last = f"{keys[-1][0]:016}"
        older = [0] * (len(keys) + 1)
        for raw in new.names:
            if raw[16:17] == "." and raw[:16] > last and raw[:16].isdecimal():
                continue  # the usual form, which sorts as text like the number
            when = put_us(raw, times)
            if when is not None and (key := (when, raw)) < keys[-1]:
                older[bisect_right(keys, key)] += 1
        total = 0
        for i, (_, _, id) in enumerate(mine):
            total += older[i]
            self._tracks[id].position = total + 1

    def _tracked(self, id: str, box: Box | None, now: float, new: BoxScan, current: bool) -> TrackedMessage:
        track = self._tracks[id]
        gone = None
        if box is not None:
            track.seen_at, track.missing_at, track.left_at = now, None, None
        elif track.missing_at is None:
            track.missing_at = now  # the two halves of a move may be reported one after the other: the next look tells
        elif new.complete and not new.error:
            listed = current or new.as_of >= track.seen_at
            if track.left_at is not None or (listed and now - track.missing_at >= _SETTLED):
                gone = track.missing_at if track.left_at is None else track.left_at
        waiting = box is Box.NEW
        return TrackedMessage(
            id, box, track.position if waiting else None, len(new.names) if waiting else None, track.claimed_at, track.pid, gone,
            track.verdict if box is Box.CUR else None, epoch(quick_enqueued_us(id)),
        )  # fmt: skip
