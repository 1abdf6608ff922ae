"""Five real processes on one ``cursors.json``, by the classic unsafe idiom and by the safe one: every reset that stood at a look
is found, with what the same write changed, and none is invented.

The truth is what was in the file at each look, noted beside it. The processes take turns that the test gives them one by one, so
that what each of them reads and writes when is any order that hypothesis thinks of, and no machine is too slow for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spooltop.control import open_control
from spooltop.model.cursors.state import Cursor

SOURCES = ("imessage", "signal", "email", "teams", "messenger")

POLLER = """
import json, os, sys
from spooltop.engine import CursorFile
source, path, safe = sys.argv[1], sys.argv[2], sys.argv[3] == "safe"
file, read, newest = CursorFile(path), None, 0
for line in sys.stdin:
    word = line.strip()
    if word == "read":
        read = json.load(open(path))
    elif word == "write" and read is not None:
        newest = read[source] + 1
        if safe:
            file.advance(source, newest)
        else:
            read[source] = newest
            with open(path + ".tmp", "w") as draft:
                draft.write(json.dumps(read))
            os.rename(path + ".tmp", path)
        read = None
    print("done", flush=True)
"""


class Poller:
    """A process that reads the file whole when it is told to, sleeps until it is told to, and then writes."""

    def __init__(self, source: str, path: Path, idiom: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", POLLER, source, path, idiom], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, word: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def __enter__(self) -> Poller:
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()


class Five:
    """The five pollers of one idiom, used again for each order of turns: they keep nothing from one to the next."""

    def __init__(self, folder: Path, idiom: str) -> None:
        self.path = folder / "cursors.json"
        self.idiom = idiom
        self.stack = ExitStack()
        self.fill()
        self.pollers = [self.stack.enter_context(Poller(source, self.path, idiom)) for source in SOURCES]

    def fill(self) -> None:
        draft = self.path.with_name("filled")
        draft.write_text(json.dumps(dict.fromkeys(SOURCES, 100)))
        draft.replace(self.path)
        self.path.with_name(".cursors.journal").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def fives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Five]]:
    found = {idiom: Five(tmp_path_factory.mktemp(idiom), idiom) for idiom in ("unsafe", "safe")}
    yield found
    for five in found.values():
        five.stack.close()


Turns = list[tuple[int, str, bool]]
"""Poller, action, and whether a look follows."""
LostUpdate = tuple[int, int, frozenset[str]]
"""A reset: what the source had, what it was reverted to, and what else changed since the look before."""


def truth(looks: list[dict[str, int]]) -> dict[str, list[LostUpdate]]:
    """The resets between one look and the next. A poller only ever counts up, so each step down was a lost update."""
    found: dict[str, list[LostUpdate]] = {source: [] for source in SOURCES}
    for before, after in pairwise(looks):
        changed = {source for source in SOURCES if before[source] != after[source]}
        for source in SOURCES:
            if after[source] < before[source]:
                found[source].append((before[source], after[source], frozenset(changed - {source})))
    return found


def lost_updates(cursor: Cursor) -> list[LostUpdate]:
    """The resets in the ring, oldest first."""
    ring = cursor.history[::-1]
    return [
        (int(str(before.value)), int(str(write.value)), frozenset(write.also_changed))
        for before, write in pairwise(ring)
        if write.lost
    ]


def watched(five: Five, turns: Turns) -> tuple[list[dict[str, int]], dict[str, Cursor]]:
    """Lets the pollers take their turns; what stood there at each look, and what was said at the end."""
    five.fill()
    looks = []
    state = {"HOME": str(five.path.parent)}
    with open_control(str(five.path), watch=False, settings=state) as control:
        for who, word, looked in [*turns, (0, "nothing", True)]:
            five.pollers[who].do(word)
            if looked or not looks:
                looks.append(json.loads(five.path.read_text()))
                snapshot = control.look()
    for poller in five.pollers:
        poller.do("write")  # nothing stays in hand for the next order of turns
    return looks, {cursor.source: cursor for cursor in snapshot.cursors}


TURNS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["read", "write"]), st.sampled_from([True, True, False])),
    min_size=5,
    max_size=40,
)
ONCE = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@ONCE
@given(turns=TURNS)
def test_every_reset_that_stood_at_a_look_is_found_and_none_invented(fives: dict[str, Five], turns: Turns) -> None:
    looks, cursors = watched(fives["unsafe"], turns)
    for source, resets in truth(looks).items():
        found = lost_updates(cursors[source])
        assert all(found.count(reset) <= resets.count(reset) for reset in found)
        assert all(found.count(reset) == resets.count(reset) for reset in sure(looks, source))


def sure(looks: list[dict[str, int]], source: str) -> Iterator[LostUpdate]:
    """The resets of this source that nobody can take for a rewind by hand: another went forward in the same write, and what it
    went back to had been there within its last three moves."""
    moves: list[tuple[int, int]] = []
    for before, after in pairwise(looks):
        if before[source] == after[source]:
            continue
        moves.append((before[source], after[source]))
        forward = any(after[other] > before[other] for other in SOURCES if other != source)
        if after[source] < before[source] and forward and after[source] in {old for old, _ in moves[-4:-1]}:
            changed = {other for other in SOURCES if before[other] != after[other]}
            yield before[source], after[source], frozenset(changed - {source})


@ONCE
@given(turns=TURNS)
def test_written_by_advance_there_is_none(fives: dict[str, Five], turns: Turns) -> None:
    looks, cursors = watched(fives["safe"], turns)
    assert {source: lost_updates(cursor) for source, cursor in cursors.items()} == {source: [] for source in SOURCES}
    assert all(cursor.reverts == 0 for cursor in cursors.values())
    assert {cursor.verdict for cursor in cursors.values()}.isdisjoint({"reverted", "rewound", "stalled"})
    assert cursors["imessage"].value == looks[-1]["imessage"]


def test_the_classic_is_found_with_what_the_same_write_changed(fives: dict[str, Five]) -> None:
    turns = []
    for _ in range(3):
        turns += [(2, "read", False), (0, "read", False), (0, "write", True), (2, "write", True)]
    looks, cursors = watched(fives["unsafe"], [(0, "nothing", True), *turns])
    assert [look["imessage"] for look in looks] == [100, 101, 100, 101, 100, 101, 100, 100]
    assert lost_updates(cursors["imessage"]) == [(101, 100, frozenset({"email"}))] * 3
    assert cursors["imessage"].verdict == "reverted"
    assert cursors["imessage"].suspects == (("email", 3),)
    assert [cursors[source].reverts_recent for source in SOURCES] == [3, 0, 0, 0, 0]


def test_two_replacements_between_two_looks_are_one(fives: dict[str, Five]) -> None:
    """Shows what the README says cannot be seen: a value saved and reverted before anybody looked."""
    turns = [(0, "nothing", True), (2, "read", False), (0, "read", False), (0, "write", False), (2, "write", True)]
    _, cursors = watched(fives["unsafe"], turns)
    assert [write.value for write in cursors["imessage"].history] == [100]
    assert [write.value for write in cursors["email"].history] == [101, 100]

