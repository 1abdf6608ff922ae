"""``spooltop move`` between two spools: what it says, what it refuses, and what arrives."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spooltop import open_queue
from spooltop.engine import Spool
from spooltop.errors import PutUnknown, SpoolFull
from spooltop.moving import move_messages
from tests.needs import needs

from .streams import ROOT, spooltop

LATER = 4e9
Pair = tuple[Path, Path]


@pytest.fixture
def empty(tmp_path: Path) -> Pair:
    for name in ("a", "b"):
        Spool.create(tmp_path / name).close()
    return tmp_path / "a", tmp_path / "b"


@pytest.fixture
def both(empty: Pair) -> Pair:
    with Spool(empty[0]) as spool:
        spool.put(b"one", source="s")
        spool.put(b"two")
        spool.put(b"later", not_before=LATER)
    return empty


def put(path: Path, *contents: bytes) -> None:
    with Spool(path) as spool:
        spool.put_many(contents)


def arrived(path: Path) -> list[tuple[bytes, str | None]]:
    found = []
    with Spool(path) as spool:
        for claim in spool.claims():
            with claim:
                found.append((claim.data, claim.source))
    return found


def contents(path: Path) -> list[bytes]:
    return [data for data, _ in arrived(path)]


def die_with(path: Path, claim: Callable[[Spool], object]) -> None:
    """Claims from a spool in a process that ends as after kill -9: nothing is cleaned up."""
    child = os.fork()
    if child == 0:
        claims = None
        try:
            claims = claim(Spool(path))  # what is dropped is given back
        finally:
            os._exit(0 if claims else 1)
    assert os.waitpid(child, 0)[1] == 0


def killed_move(source: Path, target: Path, *steps: str) -> None:
    """Kills a move after the claim of a message and the ``steps``: its put, its ack."""

    def move(queue: Spool) -> object:
        to_queue = open_queue(str(target))
        mover = queue.mover(to_queue.identity)
        claim = mover.claim()
        if "put" in steps:
            to_queue.put(claim.data, source=claim.source, key=mover.key(claim))
        if "ack" in steps:
            claim.ack()
        return queue, to_queue, mover, claim

    die_with(source, move)


def names_in(path: Path) -> list[str]:
    return sorted(os.listdir(path)) if path.is_dir() else []


def left_behind(source: Path, target: Path) -> list[str]:
    """What a move has left beside the boxes."""
    folders = (target / ".spooltop/keys", source / ".spooltop/consumers", target / ".spooltop/consumers")
    return [name for folder in folders for name in names_in(folder)]


def test_what_can_be_claimed_is_moved_and_the_rest_is_told(both: Pair) -> None:
    said = json.loads(spooltop("move", *both, "--yes", "--json").out)
    assert said == {
        "schema": 1, "from": str(both[0]), "to": str(both[1]), "waiting": 2, "moved": 2, "known": 0, "taken": 0, "left": 1,
        "came": 0, "delayed": 1, "unclaimable": 0, "running": 0, "unknown": 0, "elsewhere": {}, "stopped": False,
    }  # fmt: skip
    put(both[0], b"three")
    done = spooltop("move", *both, "--yes")
    assert (done.code, done.out) == (1, "moved 1 message; 1 waits for its delay\n")
    assert arrived(both[1]) == [(b"one", "s"), (b"two", None), (b"three", None)] and arrived(both[0]) == []


def test_all_that_is_moved_is_a_success_and_leaves_no_files(empty: Pair) -> None:
    put(empty[0], b"one", b"two")
    planned = spooltop("move", *empty, "--dry-run")
    assert planned.code == 0 and "2 messages from" in planned.out and contents(empty[1]) == []
    done = spooltop("move", *empty, "--yes")
    assert (done.code, done.out) == (0, "moved 2 messages\n")
    assert left_behind(*empty) == []


def test_a_stop_ends_it_between_two_messages(both: Pair) -> None:
    with open_queue(str(both[0])) as source, open_queue(str(both[1])) as target, source.mover(target.identity) as mover:
        answers = iter([False, True])
        done = move_messages(source, target, mover, stop=lambda: next(answers))
        assert (done.moved, done.left.ready, done.left.delayed, done.stopped) == (1, 1, 1, True)


@pytest.mark.parametrize("foreign", [False, True])
def test_an_id_that_comes_again_is_moved_again(empty: Pair, foreign: bool) -> None:
    for content in (b"first", b"second", b"second"):
        if foreign:
            (empty[0] / "new" / "job.1").write_bytes(content)
        else:
            with Spool(empty[0]) as spool:
                spool.put(content, id="order-17")
        assert spooltop("move", *empty, "--yes").out == "moved 1 message\n"
    assert contents(empty[1]) == [b"first", b"second", b"second"]


def test_a_restored_backup_is_moved_again(empty: Pair, tmp_path: Path) -> None:
    put(empty[0], b"one")
    shutil.copytree(empty[0], tmp_path / "backup")
    spooltop("move", *empty, "--yes")
    shutil.rmtree(empty[0])
    shutil.copytree(tmp_path / "backup", empty[0])
    spooltop("move", *empty, "--yes")
    assert contents(empty[1]) == [b"one", b"one"]


@needs("root", "unshare")
def test_one_queue_under_a_bind_mount_is_refused(both: Pair) -> None:
    script = 'mount --bind "$1" "$2" && exec "$3" -m spooltop move "$1" "$2" --yes'
    words = ["unshare", "-m", "sh", "-c", script, "sh", *map(str, both), sys.executable]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2 and f"both are the same queue, as {both[1]} too" in done.stderr


def test_a_move_ends_though_its_source_is_its_target(empty: Pair) -> None:
    """A file system may show one directory under two device numbers: then only the count ends it."""
    put(empty[0], b"one", b"two")
    with open_queue(str(empty[0])) as source, open_queue(str(empty[0])) as target, source.mover(target.identity) as mover:
        done = move_messages(source, target, mover)
        assert (done.moved, done.left.ready) == (2, 2)


def test_what_comes_meanwhile_is_counted_and_left(empty: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    put(empty[0], b"one", b"two")
    put_message = Spool.put

    def put_and_more(self: Spool, *words: Any, **named: Any) -> str:
        put(empty[0], b"more")
        return put_message(self, *words, **named)

    monkeypatch.setattr(Spool, "put", put_and_more)
    done = spooltop("move", *empty, "--yes")
    assert (done.code, done.out) == (1, "moved 2 messages; 2 came meanwhile: run it again\n")


def test_claims_of_running_consumers_and_of_other_programs_are_counted_and_left(empty: Pair) -> None:
    put(empty[0], b"one", b"two")
    with Spool(empty[0]) as spool, spool.claim() as claim:
        done = spooltop("move", *empty, "--yes")
        assert (done.code, done.out) == (1, "moved 1 message; 1 is claimed by a running consumer\n")
        again = spooltop("move", *empty, "--yes")
        assert again.code == 1 and "move: 1 is claimed by a running consumer" in again.err
        spool.put(b"late", not_before=LATER)
        put(empty[0], b"ready")
        counts = json.loads(spooltop("move", *empty, "--yes", "--json").out)
        assert (counts["left"], counts["delayed"], counts["running"]) == (2, 1, 1)
        assert claim.data == b"one"
    (empty[0] / "cur" / f"job.1:2,P{os.getpid()}").write_bytes(b"held")
    done = spooltop("move", *empty, "--yes")
    assert done.code == 1 and "1 is claimed by an unknown holder" in done.err


def test_claims_of_a_dead_consumer_are_moved_where_nothing_else_waits(empty: Pair) -> None:
    put(empty[0], b"one")
    die_with(empty[0], Spool.claim)
    assert spooltop("move", *empty, "--yes").out == "moved 1 message\n"
    assert contents(empty[1]) == [b"one"]


@pytest.mark.parametrize(
    ("steps", "out"),
    [((), "moved 1 message\n"), (("put",), "moved 0 messages; 1 had been put by an earlier run\n"), (("put", "ack"), "")],
    ids=["claim", "put", "ack"],
)
def test_what_a_killed_move_held_is_taken_by_the_next_one_alone(empty: Pair, steps: tuple[str, ...], out: str) -> None:
    put(empty[0], b"one")
    killed_move(*empty, *steps)
    if "ack" not in steps:
        with Spool(empty[0]) as spool:
            assert spool.recover() == [] and spool.claim() is None
        refused = spooltop("requeue", empty[0], "ALL", "--yes")
        again = f"a move to {empty[1]} was killed; run the same move again: spooltop move {empty[0]} {empty[1]}"
        assert refused.code == 3 and again in refused.out + refused.err
        assert again in spooltop("status", empty[0]).out
    done = spooltop("move", *empty, "--yes")
    assert (done.code, done.out) == (0 if out else 4, out)
    assert contents(empty[1]) == [b"one"] and left_behind(*empty) == []


def test_a_killed_move_to_another_target_is_named_and_left(empty: Pair, tmp_path: Path) -> None:
    put(empty[0], b"one")
    Spool.create(tmp_path / "c").close()
    killed_move(*empty, "put")
    done = spooltop("move", empty[0], tmp_path / "c", "--yes")
    assert done.code == 1 and contents(tmp_path / "c") == []
    again = f"run that move again: spooltop move {empty[0]} {empty[1]}"
    assert f"1 is left of a move to {empty[1]} that was killed, {again}" in done.err


def test_operators_take_claims_of_other_dead_consumers_only_or_by_force(empty: Pair) -> None:
    put(empty[0], b"one", b"two", b"three")
    die_with(empty[0], lambda spool: [spool.claim(), spool.claim()])
    killed_move(*empty)
    done = spooltop("requeue", empty[0], "ALL", "--yes")
    assert done.code == 1 and "refused 1" in done.out and "run the same move again" in done.out
    assert len(os.listdir(empty[0] / "cur")) == 1
    forced = spooltop("requeue", empty[0], "ALL", "--yes", "--force")
    assert forced.code == 0 and f"it may be in {empty[1]} as well" in forced.out


@pytest.mark.parametrize("target", [7, None, ["b"]])
def test_a_movers_record_that_somebody_wrote_is_left_alone(empty: Pair, target: object) -> None:
    put(empty[0], b"one")
    killed_move(*empty)
    (name,) = names_in(empty[0] / ".spooltop/consumers")
    path = empty[0] / ".spooltop/consumers" / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"target": target, "target_marks": target}))
    with Spool(empty[0]) as spool:
        assert spool.recover() == []
    assert "1 is left of a move to '' that was killed" in spooltop("move", *empty, "--yes").err


def test_attempts_are_not_counted_by_a_move_that_fails(empty: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    put(empty[0], b"one")
    before = os.listdir(empty[0] / "new")

    def full(self: Spool, *words: Any, **named: Any) -> str:
        raise SpoolFull("put: no space or no inodes left", path=self.path)

    monkeypatch.setattr(Spool, "put", full)
    assert spooltop("move", *empty, "--yes").code != 0
    assert os.listdir(empty[0] / "new") == before and left_behind(*empty) == []


def test_a_message_whose_put_is_uncertain_stays_with_the_next_move(
    empty: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(empty[0], b"one")
    put_message = Spool.put

    def unknown(self: Spool, *words: Any, **named: Any) -> str:
        raise PutUnknown("the sync of new failed", id=put_message(self, *words, **named), path=self.path)

    monkeypatch.setattr(Spool, "put", unknown)
    assert spooltop("move", *empty, "--yes").code != 0
    monkeypatch.undo()
    with Spool(empty[0]) as spool:
        assert spool.recover() == [] and spool.depth() == 0
    assert spooltop("move", *empty, "--yes").out == "moved 0 messages; 1 had been put by an earlier run\n"
    assert contents(empty[1]) == [b"one"]


def test_a_claim_that_is_taken_by_force_meanwhile_is_told(empty: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    put(empty[0], b"one")
    put_message = Spool.put

    def put_and_take(self: Spool, *words: Any, **named: Any) -> str:
        monkeypatch.undo()
        id = put_message(self, *words, **named)
        (name,) = os.listdir(empty[0] / "cur")
        os.rename(empty[0] / "cur" / name, empty[0] / "new" / name.partition(",c=")[0])
        return id

    monkeypatch.setattr(Spool, "put", put_and_take)
    done = spooltop("move", *empty, "--yes")
    assert done.code == 1
    assert f"1 was taken back by force meanwhile, and was put into {empty[1]} as well; 1 came meanwhile" in done.out
    assert left_behind(*empty) == []
