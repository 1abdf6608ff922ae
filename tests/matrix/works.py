"""Operations of the engine and of what lies beside the boxes: a queue in a state, what is done to it, and what it holds then.
Their tests are in ``test_engine``."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spooltop.backends.directory.trials import try_all
from spooltop.backends.log_store import LogFiles
from spooltop.cli.commands.move import forget_ended, move_messages
from spooltop.engine import Claim, CursorFile, FileTicketQueue, Spool, read_and_delete
from spooltop.engine.files import Files
from spooltop.errors import Refused, SpooltopError
from spooltop.model.backend import KeptView
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action
from tests.builders import CursorWorld, LayoutWorld, LockWorld, SpoolWorld, World

from .cuts import Mode, cut, interposed, sites_of_call
from .scenes import alone

__all__ = ["WORKS", "Work"]

DATA, CHANGED = "whole " * 100, "what is left " * 100
View = Counter[str]


@dataclass(frozen=True)
class Work:
    """Operation ``run`` in the world that ``build`` makes. ``view`` counts what can be relied upon then.

    ``again``: the same again finishes what was cut off. ``between``: what was cut off is also before that between what was and
    what is to be. ``errors``: errors that it may raise besides those of spooltop. ``is_silent``: it logs others. ``plain``: it is
    part of a plain run.
    """

    build: Callable[[Path], Any]
    run: Callable[[Any], Sequence[str] | None]
    view: Callable[[Any], View]
    again: bool = True
    between: bool = True
    errors: tuple[type[Exception], ...] = ()
    is_silent: bool = False
    plain: bool = True

    def act(self, world: World) -> Sequence[str]:
        """Returns what is told of trouble."""
        try:
            return self.run(world) or ()
        except self.errors as error:
            return [str(error)]


# Messages


def spool(*fill: Callable[[SpoolWorld], object]) -> Callable[[Path], SpoolWorld]:
    def build(folder: Path) -> SpoolWorld:
        world = SpoolWorld(folder)
        world.put("here")
        for prepare in fill:
            prepare(world)
        return world

    return build


def recovered(world: SpoolWorld) -> View:
    """Counts what is there to be claimed, and what is set aside, after a recover. Nothing has two names then, and no consumer is
    left."""
    with Spool(world.path, False) as opened:
        opened.recover()
        opened.recover()  # of claims whose presence file the first one has put back
    places = [(place, content) for content, places in world.census().items() for place in places if place[:4] != "tmp/"]
    claims = [place for place, _ in places if place[:4] == "cur/"]
    assert claims or not any(" = " in place for place, _ in places), places
    assert claims or not list((world.path / ".spooltop/consumers").glob("[!.]*")), places
    return View(f"{content} in {place.removeprefix('.spooltop/').partition('/')[0]}" for place, content in places)


def anywhere(world: SpoolWorld) -> View:
    return View({content: len(places) for content, places in world.census().items()})


def within(run: Callable[[Spool], object], **options: Any) -> Callable[[SpoolWorld], None]:
    def done(world: SpoolWorld) -> None:
        with Spool(world.path, **options) as opened:
            run(opened)

    return done


def claimed(end: Callable[[Claim], object], **options: Any) -> Callable[[SpoolWorld], None]:
    """Claims each message that waits, and ends the claim."""

    def run(opened: Spool) -> None:
        for claim in [claim for _ in range(opened.depth()) if (claim := opened.claim()) is not None]:
            end(claim)

    return within(run, **options)


def put(key_window: float | None = None, **options: Any) -> Callable[[SpoolWorld], None]:
    return within(lambda opened: opened.put(bytearray(DATA.encode()), **options), key_window=key_window)


def dead(world: SpoolWorld) -> None:
    world.claim_dead()


def doubled(world: SpoolWorld) -> None:
    """Leaves what a claim, a put, and the end of a consumer leave that were cut off half-way."""
    half_back(world)
    world.put("drafted")
    os.link(world.path / "new/drafted", world.path / "tmp/drafted")


def hidden(world: SpoolWorld) -> None:
    """Leaves what a recover leaves that was cut off after it had hidden the file of a dead consumer, which has a claim again."""
    world.claim_dead()
    for file in (world.path / ".spooltop/consumers").iterdir():
        file.rename(file.with_name(f".gone-{file.name}"))


def many_counts(world: SpoolWorld) -> None:
    """Leaves a counter file that is summed up at the next count, and a message that was put twice."""
    put(id="twice")(world)
    (world.path / ".spooltop/counters").write_text('{"at": 1.0, "what": "duplicate", "of": "s", "n": 1}\n' * 3000)


def keep_presence(opened: Spool) -> None:
    """Loses the presence file while a message is claimed, and claims another."""
    with patch("spooltop.engine.consumer.CHECK_EVERY", 0):
        first = opened.claim()
        for file in Path(opened.path, ".spooltop/consumers").iterdir():
            file.unlink()
        second = opened.claim()
    for claim in (first, second):
        if claim is not None:
            claim.release()


def meanwhile(
    call: str, file: str, does: Callable[[Any], object], run: Callable[[Any], Sequence[str] | None]
) -> Callable[[Any], Sequence[str] | None]:
    """Runs it while another process ``does`` something at its first call of an operation in the file that ends so."""

    def raced(world: Any) -> Sequence[str] | None:
        is_done = False

        def act(number: int, name: str, do: Callable[[], Any]) -> Any:
            nonlocal is_done
            if not is_done and any(path.endswith(file) for path, _, _ in sites_of_call()):
                is_done = True
                does(world)
            return do()

        with interposed(Mode(seen=frozenset({call})), act):
            return run(world)

    return raced


class Interrupting(Files):
    """File operations with an interrupt as soon as a message has become a claim."""

    def rename(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        super().rename(name, dir_fd, to, to_fd)
        if ",c=" in to:
            raise KeyboardInterrupt


def interrupt(world: SpoolWorld) -> None:
    with suppress(KeyboardInterrupt):
        within(lambda opened: opened.claim(), files=Interrupting())(world)


# Moves into another queue


def to_other(*fill: Callable[[SpoolWorld], object]) -> Callable[[Path], SpoolWorld]:
    return spool(lambda world: setattr(world, "other", SpoolWorld(world.path.parent / "other")), *fill)


def move(world: SpoolWorld) -> list[str]:
    other: Any = world.other  # type: ignore[attr-defined]
    with Spool(world.path) as source, Spool(other.path) as target, source.mover(target.identity) as mover:
        left = move_messages(source, target, mover).left
        forget_ended(mover, target)
    return [f"left: {left}"] if left.dead + left.running + left.unknown else []


def back(world: SpoolWorld) -> None:
    """Leaves what a claim that goes back to the queue leaves that was cut off half-way."""
    [claim] = (world.path / "cur").iterdir()
    os.link(claim, world.path / "new/here")


def move_cut_off(call: str, file: str) -> Callable[[SpoolWorld], None]:
    def prepare(world: SpoolWorld) -> None:
        assert cut(lambda: move(world), Mode(seen=frozenset({call})), file)

    return prepare


def moved(world: SpoolWorld) -> View:
    return recovered(world) + View({f"{name} there": n for name, n in recovered(world.other).items()})  # type: ignore[attr-defined]


# Against other processes, and by root


def bring(world: SpoolWorld) -> None:
    """Has another process make spooltop's own directory."""
    own = Path(f"{world.path}-own")
    (own / "keys").mkdir(parents=True)
    (own / "format").write_text("2\n")
    own.rename(world.path / ".spooltop")


def put_anew(name: str, content: str) -> Callable[[World], None]:
    """Has another process put another file under a name."""

    def does(world: World) -> None:
        world.write("came", content)
        world.write("another", content).replace(world.path / name)

    return does


def one_stale(world: World) -> None:
    world.soft_lock("leader.lock")


def told_of(action: Action, *ids: str) -> Callable[[World], list[str]]:
    def act(world: World) -> list[str]:
        with world.control() as control:
            result = control.apply(control.plan(action, Selection(ids=ids), force=True))
        return [item.reason for item in result.items if item.outcome is not Outcome.DONE]

    return act


def contents(world: World) -> View:
    """Counts the contents. What another process has put stays somewhere."""
    came = world.path / "came"
    files = [path for path in world.path.rglob("*") if path.is_file() and path != came]
    assert not came.exists() or came.read_text() in [path.read_text() for path in files], files
    return View(dict.fromkeys(world.census(), 1))


def owned(world: SpoolWorld) -> None:
    """Gives the spool to another user, as only root can."""
    if os.geteuid() == 0:
        for path in (world.path, *world.path.rglob("*")):
            os.chown(path, 65534, -1)


def in_parts(run: Callable[[Any], Sequence[str] | None]) -> Callable[[Any], Sequence[str] | None]:
    """Runs it with a journal that begins a new part with each line."""

    def done(world: Any) -> Sequence[str] | None:
        with patch.object(LogFiles, "rotate_at", 1):
            return run(world)

    return done


def ended_part(world: SpoolWorld) -> None:
    """Leaves a part of the journal that nothing needs any more: what it held is gone."""
    for name in ("first", "second"):
        world.put(name)
        in_parts(told_of(Action.HOLD, name))(world)
    for file in (world.path / ".spooltop/held").glob("*/first"):
        file.unlink()


def half_back(world: SpoolWorld) -> None:
    """Leaves what a recover leaves that was cut off between link and unlink."""
    [claim] = world.claim_dead()
    os.link(world.path / "cur" / claim, world.path / "new/here,n=1")


# Beside the boxes


def sections(world: CursorWorld) -> View:
    return View({json.dumps(world.sections()): 1})


def second_name(world: CursorWorld) -> None:
    """Leaves the lock of a cursor file that was cut off between link and unlink."""
    os.link(world.write(".cursors.lock", ""), world.path / "..cursors.lock.0123456789abcdef")


def advance(world: CursorWorld) -> None:
    with CursorFile(world.target) as file:
        file.advance("mail", {"uid": 9})


def tickets(world: World) -> View:
    """Counts the tickets. The next one has a new number."""
    queue = queue_of(world)  # makes it, where it was removed
    names = [name for name in os.listdir(world.path / "job.lock.queue") if len(name) > 20]
    ticket, member = queue.register()
    queue_of(world).remove(member)
    assert ticket > max((int(name[:20]) for name in names), default=0), (ticket, names)
    return View(names)


def queue_of(world: World) -> FileTicketQueue:
    return FileTicketQueue(world.path / "job.lock.queue", gone=lambda pid: True)


def in_turn(world: World) -> None:
    queue = queue_of(world)
    queue.cleanup_stale()
    queue.remove(queue.register()[1])
    queue.maybe_cleanup()


def ticket_queue(folder: Path) -> LockWorld:
    world = LockWorld(folder)
    world.write("job.lock.queue/seq", "8\n")
    return world


def taken(world: World) -> View:
    return View(file.read_text() for file in world.path.iterdir() if not file.name.endswith(".lock"))


def file_alone(folder: Path) -> World:
    world = World(folder)
    world.write("job", "once")
    world.write("job.lock", "")
    return world


def take_file(world: World) -> None:
    read_and_delete(world.path / "job")


def keep_view(world: SpoolWorld) -> list[str]:
    with world.control() as control:
        return [] if control.keep_view(KeptView("claims")) else ["it is not kept"]


def kept(world: SpoolWorld) -> View:
    with world.control() as control:
        return View({control.kept_view().view: 1})


def mute(world: SpoolWorld) -> None:
    with world.control() as control:
        control.mute("mail", 3600)


def muted(world: SpoolWorld) -> View:
    with world.control() as control:
        return View({"mail is muted": control.unmute("mail")})


def tried(world: SpoolWorld) -> View:
    """Tries again: all is as it should be, and nothing is left of the trials before."""
    assert all(trial.worked for trial in try_all(str(world.path / "tmp")).values())
    return View(os.listdir(world.path / "tmp"))


def try_place(world: SpoolWorld) -> list[str]:
    return [trial.error for trial in try_all(str(world.path / "tmp")).values() if not trial.worked]


FILES = (OSError,)
ANY = (SpooltopError, OSError)
LIVING = f"1\n{os.uname().nodename}\n"
WORKS: dict[str, Work] = {
    "create": Work(World, lambda world: Spool.create(world.path).close(), lambda world: View(os.listdir(world.path))),
    "put": Work(spool(), within(lambda opened: opened.put(DATA.encode(), source="s")), recovered, again=False),
    "put of a file": Work(spool(), within(lambda opened: opened.put(BytesIO(DATA.encode()))), recovered, again=False),
    "put by id": Work(spool(), put(id="chosen"), recovered),
    "put by id again": Work(spool(many_counts), put(id="twice"), recovered, plain=False),
    "put by key": Work(spool(), put(key="key"), recovered),
    "put by key again": Work(
        spool(put(key="key")), put(key="key", key_window=0.0), recovered, again=False, plain=False
    ),
    "put many": Work(spool(), within(lambda opened: opened.put_many([DATA.encode()] * 3)), recovered, again=False),
    "ack": Work(spool(), claimed(Claim.ack), recovered),
    "ack many": Work(spool(), within(lambda opened: opened.ack_many(opened.claims())), recovered, plain=False),
    "release": Work(spool(), claimed(Claim.release), recovered),
    "release changed": Work(
        spool(), claimed(lambda claim: claim.release(data=CHANGED.encode())), recovered, again=False, errors=(Refused,)
    ),
    "reject": Work(spool(), claimed(lambda claim: claim.reject("on purpose")), recovered),
    "claim without presence": Work(spool(), within(keep_presence), anywhere, again=False),
    "interrupt": Work(spool(), interrupt, recovered, plain=False),
    "recover": Work(spool(dead), within(Spool.recover), recovered),
    "recover at the limit": Work(spool(dead), within(Spool.recover, max_attempts=1), recovered, plain=False),
    "recover of two names": Work(spool(doubled), within(Spool.recover), recovered, plain=False),
    "recover of a hidden consumer": Work(spool(hidden), within(Spool.recover), recovered, plain=False),
    "move": Work(to_other(), move, moved, between=False),
    "move of what was claimed": Work(
        to_other(move_cut_off("create", "producer.py")), move, moved, between=False, is_silent=True, plain=False
    ),
    "move of what went back": Work(
        to_other(move_cut_off("create", "producer.py"), back), move, moved, between=False, is_silent=True, plain=False
    ),
    "move of what was put": Work(
        to_other(move_cut_off("unlink", "consumer.py")), move, moved, between=False, is_silent=True, plain=False
    ),
    "put by key while another does": Work(
        spool(), meanwhile("move", "engine/dirs.py", bring, put(key="key")), recovered, plain=False
    ),
    "put for the owner": Work(spool(owned), put(id="chosen"), recovered, plain=False),
    "hold in parts": Work(
        spool(ended_part), in_parts(told_of(Action.HOLD, "here")), anywhere, errors=ANY, is_silent=True, plain=False
    ),
    "requeue of two names": Work(
        spool(half_back), told_of(Action.REQUEUE, "here"), anywhere, errors=ANY, plain=False
    ),
    "unlock what is taken again": Work(
        alone(LockWorld, one_stale),
        meanwhile("swap", "locks/removal.py", put_anew("leader.lock", LIVING), told_of(Action.UNLOCK, "leader.lock")),
        contents, again=False, between=False, errors=ANY, is_silent=True, plain=False
    ),
    "purge what is replaced": Work(
        alone(partial(LayoutWorld, layout="job-queue")),
        meanwhile("move", "layouts/operator/performer.py", put_anew("jobs/wait-1.state", "new"),
                  told_of(Action.PURGE, "wait-1")),
        contents, between=False, errors=ANY, is_silent=True, plain=False
    ),
    "advance": Work(CursorWorld, advance, sections),
    "advance with a draft": Work(alone(CursorWorld, second_name), advance, sections, plain=False),
    "take a ticket": Work(ticket_queue, in_turn, tickets, between=False, errors=FILES, is_silent=True),
    "read and delete": Work(file_alone, take_file, taken, again=False, errors=FILES),
    "keep a view": Work(spool(), keep_view, kept, between=False, plain=False),
    "mute": Work(spool(), mute, muted, plain=False),
    "trials": Work(spool(), try_place, tried, errors=FILES, plain=False),
}
