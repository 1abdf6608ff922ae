"""``spooltop move`` between two spools: what it says, what it refuses, and what arrives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spooltop import open_queue
from spooltop.engine import Spool
from spooltop.moving import move_messages

from .streams import spooltop


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    with Spool.create(tmp_path / "a") as spool:
        spool.put(b"one", source="s")
        spool.put(b"two")
        spool.put(b"later", not_before=4e9)
    Spool.create(tmp_path / "b").close()
    return tmp_path / "a", tmp_path / "b"


def arrived(path: Path) -> list[tuple[bytes, str | None]]:
    found = []
    with Spool(path) as spool:
        for claim in spool.claims():
            with claim:
                found.append((claim.data, claim.source))
    return found


def test_what_can_be_claimed_is_moved_and_the_rest_is_told(both: tuple[Path, Path]) -> None:
    done = spooltop("move", *both, "--yes")
    assert done.code == 0 and done.out == "moved 2 messages; 1 left: they wait for a delay, or came meanwhile\n"
    assert arrived(both[1]) == [(b"one", "s"), (b"two", None)] and arrived(both[0]) == []


def test_json_has_the_numbers(both: tuple[Path, Path]) -> None:
    said = json.loads(spooltop("move", *both, "--yes", "--json").out)
    assert said == {
        "schema": 1, "from": str(both[0]), "to": str(both[1]), "waiting": 3, "moved": 2, "known": 0, "left": 1, "stopped": False,
    }  # fmt: skip


def test_nothing_is_moved_without_a_confirmation(both: tuple[Path, Path]) -> None:
    planned = spooltop("move", *both, "--dry-run")
    assert planned.code == 0 and "3 messages from" in planned.out
    asked = spooltop("move", *both)
    assert asked.code == 3 and "no terminal to confirm on" in asked.err
    assert spooltop("--read-only", "move", *both, "--yes").code == 3
    assert arrived(both[1]) == []


def test_one_queue_under_two_names_is_refused(both: tuple[Path, Path]) -> None:
    (both[0].parent / "link").symlink_to(both[0])
    done = spooltop("move", both[0], both[0].parent / "link", "--yes")
    assert done.code == 2 and "the same queue" in done.err


def test_an_empty_queue_has_nothing_to_move(both: tuple[Path, Path]) -> None:
    done = spooltop("move", both[1], both[0], "--yes")
    assert done.code == 4 and "no message waits there" in done.err


def test_what_an_interrupted_run_had_put_is_not_put_again(both: tuple[Path, Path]) -> None:
    with open_queue(str(both[0])) as source, open_queue(str(both[1]), keys_kept=60) as target:
        claim = source.claim()
        assert claim is not None
        target.put(claim.data, source=claim.source, key=f"moved from name: {claim.id}")
        claim.release()  # killed here: its claim goes back
        done = move_messages(source, target, "name")
        assert (done.moved, done.known, done.left) == (1, 1, 1)
    assert sorted(data for data, _ in arrived(both[1])) == [b"one", b"two"]


def test_a_stop_ends_it_between_two_messages(both: tuple[Path, Path]) -> None:
    with open_queue(str(both[0])) as source, open_queue(str(both[1])) as target:
        answers = iter([False, True])
        done = move_messages(source, target, "name", stop=lambda: next(answers))
        assert (done.moved, done.left, done.stopped) == (1, 2, True)
