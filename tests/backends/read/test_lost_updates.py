"""Five pollers on one ``cursors.json``, by the classic unsafe idiom and in any order: every reset that stood at a look is found,
with what the same write changed, and none is invented. The truth is what was in the file at each look."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from spooltop.control import open_control
from spooltop.cursors.model import Cursor

SOURCES = ("imessage", "signal", "email", "teams", "messenger")
Turn = tuple[int, str, bool]  # poller, action, and whether a look follows
Reset = tuple[int, int, frozenset[str]]  # what the source had, what it went back to, and what else changed since the look before
TURN = st.tuples(st.integers(0, 4), st.sampled_from(["read", "write"]), st.sampled_from([True, True, False]))
TURNS = st.lists(TURN, min_size=5, max_size=40)


def watched(turns: list[Turn]) -> tuple[list[dict[str, int]], dict[str, Cursor]]:
    """Lets the pollers take their turns; returns what stood there at each look, and the cursors at the last one.

    A poller reads the file whole and later writes it whole, with its own cursor moved by one."""
    read: dict[str, dict[str, int]] = {}
    looks = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cursors.json")
        path.write_text(json.dumps(dict.fromkeys(SOURCES, 100)))
        with open_control(str(path), watch=False, settings={"HOME": folder}) as control:
            for who, action, looked in [(0, "look", True), *turns, (0, "look", True)]:
                source = SOURCES[who]
                if action == "read":
                    read[source] = json.loads(path.read_text())
                elif action == "write" and source in read:
                    sections = read.pop(source)
                    sections[source] += 1
                    path.with_name("cursors.json.tmp").write_text(json.dumps(sections))
                    os.rename(path.with_name("cursors.json.tmp"), path)
                if looked:
                    looks.append(json.loads(path.read_text()))
                    snapshot = control.look()
    return looks, {cursor.source: cursor for cursor in snapshot.cursors}


def resets(looks: list[dict[str, int]], source: str) -> Iterator[tuple[Reset, bool]]:
    """The resets between two looks, and whether nobody can take it for a rewind by hand: another went forward in the same write,
    and what it went back to had been there within its last three moves. A poller only ever counts up, so each step down was a
    lost update."""
    left: list[int] = []
    for before, after in pairwise(looks):
        old, new = before[source], after[source]
        if new < old:
            changed = {other for other in SOURCES if before[other] != after[other]} - {source}
            forward = any(after[other] > before[other] for other in changed)
            yield (old, new, frozenset(changed)), forward and new in left[-3:]
        if new != old:
            left.append(old)


@settings(max_examples=40)
@given(TURNS)
def test_every_reset_that_stood_at_a_look_is_found_and_none_invented(turns: list[Turn]) -> None:
    looks, cursors = watched(turns)
    for source in SOURCES:
        writes = pairwise(cursors[source].history[::-1])
        found = [(before.value, after.value, frozenset(after.also_changed)) for before, after in writes if after.lost]
        truth = list(resets(looks, source))
        there = [reset for reset, _ in truth]
        assert all(found.count(reset) <= there.count(reset) for reset in found)
        assert all(found.count(reset) == there.count(reset) for reset, sure in truth if sure)
