"""The name of a layout: kept beside a queue from its first operation on, given by ``--as``, or by the setting ``layouts``."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.backends.layouts.kept_name import KEPT
from spooltop.cli.parser import COMMANDS
from spooltop.control import open_control
from spooltop.errors import NotASpool, SpooltopError, UsageError
from spooltop.model.backend import OpenAs
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box
from spooltop.queues import open_queue
from spooltop.settings import load
from spooltop.targets import find_targets, identify_target
from tests.backends.conftest import Interpose
from tests.backends.layouts.queues import ACTIONS
from tests.builders import LayoutWorld, nq
from tests.cli.streams import Done, spooltop
from tests.needs import needs

EMPTIED = sorted({layout: (action, box) for layout, action, box, force in ACTIONS if action is not Action.REQUEUE}.items())


def run(*words: str | Path, **settings: str) -> Done:
    return spooltop(*words, environ={"TERM": "xterm", **settings})


def drained(queue: Path) -> None:
    """Takes away all that is not spooltop's own, as its program does with the last message."""
    for one in sorted(queue.rglob("*"), reverse=True):
        if ".spooltop" not in one.relative_to(queue).parts:
            one.rmdir() if one.is_dir() and not one.is_symlink() else one.unlink()


@pytest.mark.parametrize(("layout", "done"), EMPTIED, ids=[layout for layout, _ in EMPTIED])
def test_a_drained_queue_is_still_what_it_was(memory: Path, layout: str, done: tuple[Action, Box]) -> None:
    world, (action, box) = LayoutWorld(memory, layout), done
    queue, before = world.path, world.tree()
    first = run(action.value, queue, "--box", box.value, "ALL", "--yes")
    assert (first.code, first.err) == (0, "")
    operation = first.out.rpartition("operation ")[2].split()[0]
    left = world.tree()
    drained(queue)
    assert os.listdir(queue) in ([".spooltop"], [])
    listed = run("ops", queue)
    assert (listed.code, listed.err) == (0, "") and operation in listed.out
    assert run("check", queue).out.startswith("SPOOL OK")
    status = run("status", queue)
    assert (status.code, status.err) == (0, "") and identify_target(str(queue)).kind == "layout"
    assert find_targets([str(memory)]) == [str(queue)]
    if action is Action.HOLD:
        released = run("release", queue, "ALL", "--yes", "--dry-run")
        assert released.code == 0 and "no operations" not in released.out
    for name in left:  # the directories that its program makes, and what it reads besides
        if left[name] == "/":
            (queue / name).mkdir(parents=True, exist_ok=True)
        elif name == ".lock":
            (queue / name).touch()
    undone = run("undo", queue, operation, "--yes")
    assert (undone.code, undone.err) == (0, "") and not world.set_aside()
    assert {name for name in before if name not in left} <= world.tree().keys()


def with_text(text: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(text) and None


@pytest.mark.parametrize(
    "plant",
    [
        with_text(b"no such layout\n"), with_text(b"../../etc/passwd\n"), with_text(b"\xff\xfe"), with_text(b"nq\n" * 100_000),
        with_text(b""), lambda path: path.symlink_to("/etc/hostname"), os.mkfifo, Path.mkdir,
    ],
    ids=["unknown", "path", "no text", "long", "empty", "link", "fifo", "folder"],
)  # fmt: skip
def test_a_planted_name_that_is_none_of_a_known_layout_counts_for_nothing(memory: Path, plant: Callable[[Path], None]) -> None:
    world = LayoutWorld(memory, "nq")
    queue = world.path
    (queue / ".spooltop").mkdir()
    plant(queue / ".spooltop" / KEPT)
    found = identify_target(str(queue))
    assert found.where.name == "nq"  # type: ignore[attr-defined]
    done = run("purge", queue, "--box", "delivered", "ALL", "--yes")
    if (queue / ".spooltop" / KEPT).is_dir():
        assert done.code == 5 and "Is a directory" in done.err and not world.set_aside()
    else:
        assert (done.code, done.err) == (0, "") and (queue / ".spooltop" / KEPT).read_bytes() == b"nq\n"


def test_a_full_disk_does_not_keep_the_name_nor_anybody_from_deleting(memory: Path, before_call: Interpose) -> None:
    def fail(old: str, new: str, folder: int) -> None:
        if new == KEPT:
            raise OSError(errno.ENOSPC, "No space left on device")

    before_call("replace", fail)
    world, delivered = LayoutWorld(memory, "nq"), Selection(box=Box.DELIVERED, everything=True)
    with pytest.raises(SpooltopError, match="No space left"):
        world.do(Action.PURGE, delivered)
    assert world.do(Action.PURGE, delivered, now=True)[1].count(Outcome.DONE) == 1
    assert not (world.path / ".spooltop" / KEPT).exists()


def test_a_journal_without_a_known_layout_is_never_an_empty_list(memory: Path) -> None:
    queue = memory / "queue"
    nq(queue)
    assert run("purge", queue, "--box", "delivered", "ALL", "--yes").code == 0
    drained(queue)
    for name in ("no such layout\n", None):
        if name is None:
            (queue / ".spooltop" / KEPT).unlink()
        else:
            (queue / ".spooltop" / KEPT).write_text(name)
        for command in ("ops", "status", "locks"):
            done = run(command, queue)
            assert (done.code, done.out) == (5, ""), command
            assert done.err == (
                f"spooltop: {queue}: operations of spooltop are recorded here, and neither boxes nor a known layout are there; "
                f"name what it is: spooltop ops {queue} --as NAME, as in spooltop layouts\n"
            )
    listed = run("ops", queue, "--as", "nq")
    assert (listed.code, listed.err) == (0, "") and "purge" in listed.out


def test_every_command_takes_the_name_of_a_layout(memory: Path) -> None:
    folder = memory / "in"
    folder.mkdir()
    for command in COMMANDS:
        done = run(command, "-h")
        assert "--as NAME" in done.out, command
    looks = ("status", "ls", "ops", "check", "consumers", "locks", "metrics", "doctor", "cursors", "requeue", "purge", "hold")
    for command in looks:
        done = run(command, folder, "--as", "dirq-simple", *(("ALL", "--dry-run") if command in ("requeue", "hold") else ()))
        assert done.code != 5 and "not a spool" not in done.err, (command, done)
    assert "(dirq simple)" in run("status", folder, "--as", "dirq simple").out
    for command in ("put", "work"):
        done = run(command, folder, "--as", "nq", *(("--", "true") if command == "work" else ()))
        assert done.code == 3 and "use nq itself for that" in done.err
    unknown = run("status", folder, "--as", "nqq")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err == "spooltop: no layout is called nqq; spooltop layouts lists them; spool is a job spool\n"
    assert run("status", memory / "nowhere", "--as", "nq").code == 5


def test_what_the_settings_say_holds_for_every_front_end(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, boxes = memory / "jobs", memory / "boxes"
    plain.mkdir()
    for name in ("tmp", "new", "cur"):
        (boxes / name).mkdir(parents=True)
    file = memory / "config/spooltop/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'[layouts]\n"{plain}" = "dirq simple"\n"{boxes}/" = "nq"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(memory / "config"))
    monkeypatch.delenv("SPOOLTOP_LAYOUTS", raising=False)
    words = f"{plain}=dirq simple:{boxes}/=nq"
    assert load(os.environ).words["SPOOLTOP_LAYOUTS"] == words
    shown = run("config", "show", XDG_CONFIG_HOME=str(memory / "config")).out
    assert any(line.startswith("layouts ") and words in line for line in shown.splitlines())
    for path, name in ((plain, "dirq simple"), (boxes, "nq")):
        assert f"({name})" in run("status", path).out
        assert identify_target(str(path)).kind == "layout"
        with pytest.raises(SpooltopError, match=f"use {name} itself"):
            open_queue(str(path), action="put")
    (memory / "link").symlink_to(plain)
    assert identify_target(str(memory / "link")).kind == "layout"
    assert sorted(find_targets([str(memory)])) == [str(boxes), str(plain)]
    assert identify_target(str(boxes), as_kind="spool").kind == "spool"  # what is said now counts for more
    with open_control(str(boxes), watch=False, settings={"SPOOLTOP_LAYOUTS": f"{boxes}=spool"}) as control:
        assert control.look().observation.layout == "spool"
    monkeypatch.setenv("SPOOLTOP_LAYOUTS", f"{plain}=huey")
    assert identify_target(str(boxes)).kind == "spool"  # the first place that has a setting decides all of it
    monkeypatch.setenv("SPOOLTOP_LAYOUTS", str(plain))
    with pytest.raises(UsageError, match="is not PATH=NAME"):
        identify_target(str(plain))
    file.write_text('layouts = { "/a:b" = "nq" }\n')
    monkeypatch.delenv("SPOOLTOP_LAYOUTS")
    with pytest.raises(UsageError, match="layouts wants a list of words without a colon"):
        load(os.environ)


def test_a_layout_that_was_used_on_boxes_counts_for_more_than_their_names(memory: Path) -> None:
    """Else its journal would be read as that of a spool."""
    queue = memory / "queue"
    nq(queue)
    for name in ("tmp", "new", "cur"):
        (queue / name).mkdir()
    assert identify_target(str(queue)).kind == "spool"
    done = run("purge", queue, "--as", "nq", "--box", "delivered", "ALL", "--yes")
    assert (done.code, done.err) == (0, "") and f"spooltop undo {queue} --as nq " in done.out
    assert identify_target(str(queue)).kind == "layout" and "purge" in run("ops", queue).out
    assert OpenAs("spool").as_spool and identify_target(str(queue), as_kind="spool").kind == "spool"
    with pytest.raises(NotASpool):
        identify_target(str(queue / ".spooltop"))


@needs("root")
@pytest.mark.parametrize(("uid", "kind"), [(0, "layout"), (65_534, "layout"), (65_533, "spool")])
def test_a_name_that_a_stranger_wrote_does_not_hide_a_spool(memory: Path, uid: int, kind: str) -> None:
    spool = memory / "jobs"
    for name in ("tmp", "new", "cur", ".spooltop"):
        (spool / name).mkdir(parents=True)
    (spool / ".spooltop" / KEPT).write_text("nq\n")
    os.chown(spool, 65_534, 65_534)
    os.chown(spool / ".spooltop" / KEPT, uid, uid)
    assert identify_target(str(spool)).kind == kind
    for name in ("tmp", "new", "cur"):
        (spool / name).rmdir()
    assert identify_target(str(spool)).kind == "layout"
