"""``spooltop move`` between two spools: what it says, what it refuses, and what arrives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spooltop import open_queue
from spooltop.engine import Spool
from spooltop.errors import PutUnknown
from tests.needs import needs

from .streams import ROOT, contents, put, spooltop

LATER = 4e9
Pair = tuple[Path, Path]


@pytest.fixture
def empty(tmp_path: Path) -> Pair:
    for name in ("a", "b"):
        Spool.create(tmp_path / name).close()
    return tmp_path / "a", tmp_path / "b"


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


def and_then(act: Callable[[], object]) -> Callable[..., str]:
    """Returns a put after which something else is done."""
    put_message = Spool.put

    def put_and_act(self: Spool, *words: Any, **named: Any) -> str:
        id = put_message(self, *words, **named)
        act()
        return id

    return put_and_act


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


def test_a_stop_ends_it_between_two_messages_and_the_rest_is_told(empty: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spool(empty[0]) as spool:
        spool.put_many([b"one", b"two"], source="s")
        spool.put(b"later", not_before=LATER)
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "put", and_then(lambda: signal.raise_signal(signal.SIGINT)))
        counts = json.loads(spooltop("move", *empty, "--yes", "--json").out)
    expected = {"waiting": 2, "moved": 1, "known": 0, "taken": 0, "left": 2, "delayed": 1, "unclaimable": 0, "stopped": True}
    assert counts | expected == counts
    done = spooltop("move", *empty, "--yes")
    assert (done.code, done.out) == (1, "moved 1 message; 1 waits for its delay\n")
    assert spooltop("ls", empty[1], "--source", "s", "--json").out.count("\n") == 2
    assert contents(empty[1]) == [b"one", b"two"]


def test_all_that_is_moved_is_a_success_and_leaves_no_files(empty: Pair) -> None:
    put(empty[0], b"one", b"two")
    planned = spooltop("move", *empty, "--dry-run")
    assert planned.code == 0 and "2 messages from" in planned.out and contents(empty[1]) == []
    done = spooltop("move", *empty, "--yes")
    assert (done.code, done.out) == (0, "moved 2 messages\n")
    assert left_behind(*empty) == []


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
def test_one_queue_under_a_bind_mount_is_refused(empty: Pair) -> None:
    script = 'mount --bind "$1" "$2" && exec "$3" -m spooltop move "$1" "$2" --yes'
    words = ["unshare", "-m", "sh", "-c", script, "sh", *map(str, empty), sys.executable]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2 and f"both are the same queue, as {empty[1]} too" in done.stderr


def test_what_comes_meanwhile_is_counted_and_left(empty: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    put(empty[0], b"one", b"two")
    monkeypatch.setattr(Spool, "put", and_then(lambda: put(empty[0], b"more")))
    done = spooltop("move", *empty, "--yes")
    assert (done.code, done.out) == (1, "moved 2 messages; 2 came meanwhile: run it again\n")


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


def test_a_message_whose_put_is_uncertain_stays_with_the_next_move(
    empty: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(empty[0], b"one")

    def unknown() -> None:
        raise PutUnknown("the sync of new failed", id="", path="")

    with monkeypatch.context() as patched:
        patched.setattr(Spool, "put", and_then(unknown))
        assert spooltop("move", *empty, "--yes").code != 0
    with Spool(empty[0]) as spool:
        assert spool.recover() == [] and spool.depth() == 0
    assert spooltop("move", *empty, "--yes").out == "moved 0 messages; 1 had been put by an earlier run\n"
    assert contents(empty[1]) == [b"one"]


def test_a_claim_that_is_taken_by_force_meanwhile_is_told(empty: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    put(empty[0], b"one")

    def take() -> None:
        (name,) = os.listdir(empty[0] / "cur")
        os.rename(empty[0] / "cur" / name, empty[0] / "new" / name.partition(",c=")[0])

    monkeypatch.setattr(Spool, "put", and_then(take))
    done = spooltop("move", *empty, "--yes")
    assert done.code == 1
    assert f"1 was taken back by force meanwhile, and was put into {empty[1]} as well; 1 came meanwhile" in done.out
    assert left_behind(*empty) == []
