"""Worlds in which commands are recorded: each is made anew for each case, in the current directory.

What a world holds is hours old, by the time in the ids and by that of the files; the ages are half a unit above a whole one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis

from spooltop import open_queue
from spooltop.engine import CursorFile, Spool
from tests import builders
from tests.builders import GONE

from .normal import ELSEWHERE, HOST, Normaliser

__all__ = ["SOCKET", "WORLDS", "World"]

HOUR = 3600.0
SOCKET = "REDIS_SOCKET"
"""Name of the environment's variable with the path of the server's socket."""
SPOOL = Path("spool")


WORLDS: dict[str, Callable[[World], None]] = {}
"""The builders by the names of their worlds."""


class World:
    """What a builder works with: names for the pids that it makes, and the processes to end after the case."""

    def __init__(self, names: Normaliser) -> None:
        self.names, self._children = names, list[int]()

    def child(self, step: Callable[[], object], *, lives: bool, words: Sequence[str] = ("sleep", "600")) -> int:
        """Runs ``step`` in a process that then is killed, or lives as ``words`` with the descriptors that it has open; returns
        when it is dead, or has become ``words``."""
        ready, failure = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                kept = step()  # a reference: what is dropped is given back
                if lives:
                    for fd in map(int, os.listdir("/proc/self/fd")):
                        if fd > 2 and fd not in (ready, failure) and os.path.exists(f"/proc/self/fd/{fd}"):
                            os.set_inheritable(fd, True)
                    os.execvp(words[0], words)
                assert kept is not None
            except Exception:  # noqa: BLE001  the parent raises it
                os.write(failure, traceback.format_exc().encode())
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.close(failure)
        problem = os.read(ready, 10_000).decode()
        assert not problem, problem
        os.close(ready)
        self._children.append(pid)
        if not lives:
            os.waitpid(self._children.pop(), 0)
        self.names.learn("PID", str(pid))
        return pid

    def close(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _world(build: Callable[[World], None]) -> Callable[[World], None]:
    WORLDS[build.__name__.replace("_", "-")] = build
    return build


@_world
def nothing(world: World) -> None:
    """Makes nothing at all."""


def own_id(age: float, number: int = 0, host: str = HOST) -> str:
    """Returns an id of spooltop's own that says that its message was put ``age`` seconds ago."""
    return f"{int((time.time() - age) * 1e6) + number}.P{GONE}R{number:016x}.{host}"


def write(path: Path | str, content: str | bytes = "", age: float = 0.0, mode: int | None = None) -> Path:
    """Writes a file that was changed ``age`` seconds ago."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if age:
        os.utime(path, (time.time() - age, time.time() - age))
    if mode is not None:
        path.chmod(mode)
    return path


@_world
def empty(world: World) -> None:
    """Makes a spool without messages."""
    Spool.create(SPOOL, False).close()


@_world
def waiting(world: World) -> None:
    """Puts three messages, one of them with a source and one tried before."""
    three_waiting(SPOOL)


def three_waiting(path: Path) -> None:
    Spool.create(path, False).close()
    for number, tail in enumerate(("", ",s=imessage", ",s=email,n=2,e=exit-1")):
        age = (3.5 - number) * HOUR
        write(path / f"new/{own_id(age, number)}{tail}", f"message {number}\n", age)


def consume(count: int, path: Path = SPOOL) -> Any:
    """Claims the ``count`` oldest messages; the claims live as long as what is returned."""
    spool = Spool(path, False)
    return spool, [spool.claim() for _ in range(count)]


@_world
def claims_dead(world: World) -> None:
    """Has a consumer that claimed two of three messages die."""
    waiting(world)
    world.child(partial(consume, 2), lives=False)


@_world
def claims_alive(world: World) -> None:
    """Has a consumer that holds one of three messages live."""
    waiting(world)
    world.child(partial(consume, 1), lives=True)


@_world
def claims_mixed(world: World) -> None:
    """Makes claims of a dead and of a living consumer, of one whose presence is gone, and of other programs."""
    Spool.create(SPOOL, False).close()
    for number in range(4):
        write(SPOOL / f"new/{own_id((5.5 - number) * HOUR, number)},s=teams", f"mixed {number}", (5.5 - number) * HOUR)
    world.child(partial(consume, 1), lives=False)
    world.child(partial(consume, 1), lives=True)
    before = set(os.listdir(SPOOL / ".spooltop/consumers"))
    world.child(partial(consume, 1), lives=False)
    (lost,) = set(os.listdir(SPOOL / ".spooltop/consumers")) - before
    (SPOOL / ".spooltop/consumers" / lost).unlink()
    write(SPOOL / f"cur/foreign-gone:2,P{GONE}", "of another program", 2.5 * HOUR)
    runs = world.child(lambda: "", lives=True)
    write(SPOOL / f"cur/foreign-runs:2,P{runs}", "of another program that runs", 2.5 * HOUR)
    write(SPOOL / "cur/tailless", "without a tail", 2.5 * HOUR)


@_world
def tmp_litter(world: World) -> None:
    """Leaves files in tmp: abandoned, locked by a writer, of another program, of another machine; and a young one."""
    waiting(world)
    write(SPOOL / f"tmp/{own_id(2.5 * HOUR, 10)}", "half a mess", 2.5 * HOUR)
    name = write(SPOOL / f"tmp/{own_id(2.5 * HOUR, 11)}", "being wr", 2.5 * HOUR)

    def writes() -> object:
        file = open(name, "ab")  # noqa: SIM115  it stays open
        fcntl.lockf(file, fcntl.LOCK_EX)
        return file

    world.child(writes, lives=True)
    write(SPOOL / f"tmp/foreign.{GONE}.{HOST}", "of another program", 2.5 * HOUR)
    write(SPOOL / f"tmp/{own_id(2.5 * HOUR, 12, ELSEWHERE)}", "of another machine", 2.5 * HOUR)
    write(SPOOL / f"tmp/{own_id(0, 13)}", "young")


def put_aside(box: str, part: str, name: str, age: float, **meta: Any) -> None:
    """Puts a message into held, rejected or trash as an operation or a consumer leaves it."""
    folder = SPOOL / ".spooltop" / box / part
    record = {"origin": "new", "reason": f"{box} by ann", "at": time.time() - age, "who": "ann", "operation": part, **meta}
    write(folder / f".{name}.meta", json.dumps(record) + "\n")
    write(folder / name, f"in {box}", age)


@_world
def set_aside(world: World) -> None:
    """Sets messages aside: two held, two rejected, two in the trash, one of them expired."""
    waiting(world)
    with Spool(SPOOL, False) as spool:
        spool.recover()  # makes .spooltop
    put_aside("held", "aaaaaaaaaa", f"{own_id(5.5 * HOUR, 20)},s=imessage", 4.5 * HOUR)
    put_aside("held", "aaaaaaaaaa", f"{own_id(5.5 * HOUR, 21)},n=1,e=died", 4.5 * HOUR, origin="cur")
    rejected = partial(put_aside, "rejected", "consumers", age=3.5 * HOUR, origin="cur", operation="")
    rejected(f"{own_id(6.5 * HOUR, 22)},n=10,e=exit-65", reason="exit 65")
    rejected(f"{own_id(6.5 * HOUR, 23)},n=2", reason="no such account")
    put_aside("trash", "bbbbbbbbbb", f"{own_id(7.5 * HOUR, 24)},s=email", 2.5 * HOUR)
    put_aside("trash", "bbbbbbbbbb", f"{own_id(8.5 * HOUR, 25)}", 24 * 40.5 * HOUR, origin="tmp")


@_world
def odd_files(world: World) -> None:
    """Leaves what no protocol makes: a claim with two links, a link into new, names too long, a directory, a symbolic link."""
    waiting(world)
    world.child(partial(consume, 1), lives=False)
    (claim,) = (SPOOL / "cur").iterdir()
    os.link(claim, SPOOL / "new" / claim.name.partition(",c=")[0])
    write(SPOOL / f"new/{'x' * 240}", "too long to be claimed", 1.5 * HOUR)
    write(SPOOL / "new/.hidden", "no message")
    (SPOOL / "new/folder").mkdir()
    (SPOOL / "new/link").symlink_to("/etc/hostname")
    write(SPOOL / "new/double", "waits", 1.5 * HOUR)
    write(SPOOL / f"cur/double:2,P{GONE}", "and is claimed under the same id", 1.5 * HOUR)


@_world
def paused(world: World) -> None:
    """Pauses a spool in which messages wait."""
    waiting(world)
    record = {"schema": 1, "by": "ann", "at": time.time() - 2.5 * HOUR, "reason": "a schema change"}
    write(SPOOL / ".spooltop/paused", json.dumps(record))


@_world
def poison(world: World) -> None:
    """Makes messages on which consumers died again and again, and one that fails again and again."""
    Spool.create(SPOOL, False).close()
    for number, tail in enumerate((",n=4,e=died", ",s=email,n=6,e=exit-1", ",n=1,e=timeout")):
        write(SPOOL / f"new/{own_id((3.5 - number) * HOUR, number)}{tail}", f"poison {number}", (3.5 - number) * HOUR)
    for _ in range(3):
        world.child(partial(consume, 1), lives=False)
        with Spool(SPOOL, False) as spool:
            spool.recover()
    world.child(partial(consume, 1), lives=False)


@_world
def hostile(world: World) -> None:
    """Puts messages under names with newlines, escapes, bytes that are no UTF-8, and those of options."""
    Spool.create(SPOOL, False).close()
    names = (
        "--yes", "-h", "ALL", "a\nb", "esc\x1b[31mred", "byte\udcff", "back\\slash", "spåce und ", "x,s=%0A,n=1", "“quotes”",
        "$(touch pwned)",
    )  # fmt: skip
    for number, name in enumerate(names):
        write(os.path.join("spool/new", name), f"hostile {number}\x1b]0;title\x07\n", (12.5 - number) * HOUR)
    write(os.path.join("spool/cur", f"c\nd\udcfe:2,P{GONE}"), "claimed", 1.5 * HOUR)
    write(os.path.join("spool/tmp", "t\x07\udcfd"), "in tmp", 1.5 * HOUR)


@_world
def payloads(world: World) -> None:
    """Puts messages with JSON that holds secrets, binary bytes, an empty one, a long one."""
    Spool.create(SPOOL, False).close()
    contents = (
        b'{"user": "ann", "password": "hunter2", "nested": {"token": "abc"}}', bytes(range(256)), b"",
        b"line\n" * 30 + b"x" * 70_000,
        b"Authorization: Bearer sesame\nkey=value\n", "mehr als ASCII: äöü ☃".encode(),
    )  # fmt: skip
    for number, content in enumerate(contents):
        write(SPOOL / f"new/message-{number}", content, (9.5 - number) * HOUR)


@_world
def half(world: World) -> None:
    """Makes a spool whose box tmp is missing."""
    waiting(world)
    (SPOOL / "tmp").rmdir()


@_world
def hints(world: World) -> None:
    """Makes what is not quite a spool: parents, files, empty directories, boxes, a lock file, a name with a typo."""
    three_waiting(Path("parent/memex"))
    three_waiting(Path("parent/teams"))
    write("parent/notes.txt", "no spool")
    write("file", "a file")
    os.mkdir("empty")
    write("other/readme", "something else")
    write("one/two/spool/new/x")
    for name in ("cur", "tmp"):
        os.makedirs(f"one/two/spool/{name}")
    write("locked/job.lock", "")
    os.symlink("nowhere", "dangling")
    os.makedirs("onlynew/new")
    write("gitlike/.git/HEAD", "ref: refs/heads/main\n")


@_world
def read_only(world: World) -> None:
    """Makes a spool whose boxes its user may not write."""
    claims_dead(world)
    for name in ("new", "cur", "tmp", ".spooltop", ".spooltop/consumers", ""):
        (SPOOL / name).chmod(0o555)


@_world
def locked_out(world: World) -> None:
    """Makes a spool in a directory that may not be entered, and two with a box, a message, trash or a journal that is closed."""
    three_waiting(Path("shut/spool"))
    three_waiting(Path("unread"))
    waiting(world)
    write("unread/.spooltop/trash/aaaaaaaaaa/message", "in trash")
    os.mkdir("unread/.spooltop/journal.jsonl")
    for path in (SPOOL / "cur", Path("shut"), Path("unread/.spooltop/trash/aaaaaaaaaa"), min(Path("unread/new").iterdir())):
        path.chmod(0)


@_world
def mail(world: World) -> None:
    """Unpacks the mail folder that Python's mailbox wrote, and makes one of Dovecot."""
    stored(world, "maildir_stdlib")
    os.rename("maildir_stdlib", "mail")
    for box in ("new", "cur", "tmp"):
        os.makedirs(f"dovecot/{box}")
    write("dovecot/dovecot-uidlist", "3 V1 N1\n")
    write("dovecot/cur/1795220919.M782520P9155.vm,S=18:2,S", "a mail", 24 * 4.5 * HOUR)


def stored(world: World, name: str) -> None:
    """Unpacks a queue that another program wrote; what names the pid of a process there is given the pid of none."""
    builders.stored(Path(name), name)
    for path in [*Path(name).rglob("*")]:
        old = path.name
        new = old.replace("P4242", f"P{GONE}").replace(".4242", f".{GONE}").replace(".9167.", f".{GONE}.")
        if new != old:
            path.rename(path.with_name(new))


def layout(world: World, name: str) -> None:
    """Makes a queue of another program."""
    builders.LAYOUTS[name](Path("queue"))
    for path in Path("queue").rglob("*"):
        os.utime(path, (1795220920, 1795220920), follow_symlinks=False)


@_world
def cursors(world: World) -> None:
    """Writes cursor files: of several sources, one a source, one that cannot be read; and what an unsafe writer leaves."""
    sections = {"imessage": {"last_rowid": 89632}, "email": {"uid": 7, "validity": 3}, "teams": "opaque", "none": None}
    write("shared/cursors.json", json.dumps(sections, indent=2), 2.5 * HOUR)
    os.chmod("shared/cursors.json", 0o640)
    write("shared/.cursors.lock")
    for name, value in (("imessage", 89632), ("email", "2026-11-25T00:00:00Z")):
        write(f"each/cursors/{name}.json", json.dumps(value), 2.5 * HOUR)
    write("torn/cursors.json", '{"imessage": 89', 2.5 * HOUR)
    stored(world, "seed_cursors")
    waiting(world)
    write("spool/cursors.json", json.dumps({"imessage": 17}), 2.5 * HOUR)
    os.mkdir("journal")
    for value in (3, 4, 5):
        CursorFile("journal/cursors.json").advance("imessage", value)


@_world
def locks(world: World) -> None:
    """Makes lock files: stale, held by a living process, taken by flock and waited for, .lck links; and ticket queues."""
    write("locks/stale.lock", f"{GONE}\n{HOST}\n1\n", 2.5 * HOUR)
    write("locks/young.lock", f"{GONE}\n{HOST}\n1\n", 60)
    write("locks/live.lock", f"{world.child(lambda: '', lives=True)}\n{HOST}\n1\n", 2.5 * HOUR)
    write("locks/far.lock", f"{GONE}\n{ELSEWHERE}\n1\n", 2.5 * HOUR)
    write("locks/kernel.lock", "", 2.5 * HOUR)

    def holds() -> object:
        file = open("locks/kernel.lock", "ab")  # noqa: SIM115  it stays open
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    world.child(holds, lives=True)
    waiter = world.child(lambda: "", lives=True, words=("flock", "locks/kernel.lock", "true"))
    while not re.search(rf"-> FLOCK .* {waiter} ", Path("/proc/locks").read_text()):
        time.sleep(0.01)
    write("locks/free.lock", "", 2.5 * HOUR)
    stored(world, "stouputils_lockfifo")
    waiting(world)
    write("spool/leader.lock", json.dumps({"pid": GONE, "host": HOST}), 2.5 * HOUR)


@_world
def operations(world: World) -> None:
    """Makes a spool in which four operations were done: a hold, a purge, a requeue and a pause that was ended."""
    claims_dead(world)
    for words in (
        ["requeue", "spool", "ALL", "--yes"], ["hold", "spool", "--box", "new", "--source", "email", "--yes"],
        ["purge", "spool", "--box", "new", "--source", "imessage", "ALL", "--yes"],
        ["pause", "spool", "--yes", "--reason", "why"], ["resume", "spool", "--yes"],
    ):  # fmt: skip
        world.child(partial(_command, words), lives=False)


def _command(words: Sequence[str]) -> bool | None:
    from spooltop.__main__ import main

    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    return main(words) == 0 or None


@_world
def several(world: World) -> None:
    """Makes three spools and a mail folder beside each other."""
    three_waiting(Path("spools/b-waiting"))
    Spool.create("spools/a-empty", False).close()
    three_waiting(Path("spools/c-dead"))
    world.child(partial(consume, 1, Path("spools/c-dead")), lives=False)
    mail(world)
    waiting(world)


@_world
def move_cut_off(world: World) -> None:
    """Has a move die that had put one of its two claims into the queue it moves to."""
    three_waiting(Path("from"))
    Spool.create("to", False).close()

    def move() -> object:
        source, target = Spool("from", False), Spool("to", False)
        with source.mover(target.identity) as mover:
            put, claimed = mover.claim(), mover.claim()
            target.put(put.data, key=mover.key(put))
            os.kill(os.getpid(), signal.SIGKILL)
        return claimed

    world.child(move, lives=False)


@_world
def stream_claimed(world: World) -> None:
    """Fills a stream of which a worker of spooltop that lives holds one message, and two wait."""
    queue = f"unix://{os.environ[SOCKET]}#jobs/work"
    with Redis(unix_socket_path=os.environ[SOCKET]) as client:
        client.flushall()
        client.xgroup_create("jobs", "work", "0", mkstream=True)

    def claim() -> object:
        opened = open_queue(queue)
        return opened, opened.claim()

    with open_queue(queue) as opened:
        for number in range(3):
            opened.put(f"message {number}".encode())
    world.child(claim, lives=True)


@_world
def stream(world: World) -> None:
    """Fills a stream: two wait, one is claimed by a plain consumer, one was rejected; and a spool to move from."""
    with Redis(unix_socket_path=os.environ[SOCKET]) as client:
        client.flushall()
        client.xgroup_create("jobs", "work", "0", mkstream=True)
        now = int(time.time() * 1000)
        for number, age in enumerate((3.5, 2.5, 1.5)):
            fields = {"data": f"message {number}", **({"source": "email"} if number else {})}
            client.xadd("jobs", fields, id=f"{now - int(age * 3600e3)}-0")
        client.xreadgroup("work", "plain-consumer", {"jobs": ">"}, count=1)
        client.xgroup_create("jobs", "idle", "$")
    waiting(world)


@_world
def stream_states(world: World) -> None:
    """Fills a stream with entries in every state, a group that the server has lost count of, and users with few rights."""
    with Redis(unix_socket_path=os.environ[SOCKET], decode_responses=True) as client:
        client.flushall()
        for group in ("work", "other"):
            client.xgroup_create("jobs", group, "0", mkstream=True)
        now, side, reads = int(time.time() * 1000), "{jobs}:spooltop:", "+@read +time +select"
        ids = [f"{now - int((9.5 - 0.5 * number) * 3600e3)}-0" for number in range(11)]
        for number, id in enumerate(ids):
            client.xadd("jobs", {"data": f"message {number}", "source": f"s{number % 3}"}, id=id)
        client.xadd("jobs", {"task": "mail", "to": "Jürgen"}, id=f"{now - 5_400_000}-0")
        for consumer, count in (("dead", 4), ("alive", 1), ("carl", 1), ("bob", 2)):
            client.xreadgroup("work", consumer, {"jobs": ">"}, count=count)
        for number, consumer, deliveries in ((2, "dead", 3), (3, "dead", 10), (6, "~spooltop", 4), (7, "~later", 1)):
            client.xclaim("jobs", "work", consumer, 0, [ids[number]], justid=True, retrycount=deliveries)
        client.zadd(f"{side}later:work", {ids[7]: now + 5_400_000})
        client.xtrim("jobs", minid=ids[1], approximate=False)
        client.xgroup_setid("jobs", "other", ids[3])  # the server does not know its lag from now on
        client.hset(f"{side}consumers:work", mapping={"dead": "far 77", "alive": "far 78"})
        client.set("{jobs}:lease:work:alive", "1")
        why = {"held": {}, "rejected": {"~why": "no"}, "trash": {"~from": "cur", "~op": "7f3a"}}
        for box, fields in why.items():
            own = {"data": box, "source": "s9", "~id": f"{now - 14_400_000}-1", "~tries": "3", "~by": "me", "~group": "work"}
            client.xadd(f"{side}{box}:work", own | fields, id=f"{now - 3_600_000}-0")
        for user, rights in (
            ("reader", f"{reads} +info +client|list +eval_ro %R~jobs %R~{{jobs}}:*"), ("blind", f"{reads} %R~jobs %R~{{jobs}}:*"),
            ("keyless", f"{reads} +info +client|list +eval_ro %R~jobs %R~{side}*"), ("barred", "-@all"),
            ("ackless", "+@all -xack ~*"), ("delless", "+@all -xdel ~*"), ("evalless", "+@all -eval ~*"),
            ("roleless", "+@all -role ~*"), ("sideless", f"{reads} +info +client|list +eval_ro %R~jobs"),
        ):  # fmt: skip
            client.execute_command("ACL", "SETUSER", user, "reset", "on", ">right", *rights.split())


@_world
def stream_several(world: World) -> None:
    """Makes five groups of four streams, a stream that has none, a key that is no stream, and a user who may only search."""
    with Redis(unix_socket_path=os.environ[SOCKET]) as client:
        client.flushall()
        for stream, group in (("jobs:a", "work"), ("jobs:a", "audit"), ("jobs:b", "work"), ("other", "work"), ("st*rs", "work")):
            client.xgroup_create(stream, group, "0", mkstream=True)
        for stream in ("jobs:a", "jobs:nobody", "{jobs:a}:spooltop:trash:work"):
            client.xadd(stream, {"data": "x"}, id=f"{int((time.time() - 1.5 * HOUR) * 1000)}-0")
        client.set("jobs:text", "no stream")
        for user, rights in (("eyes", "+@all ~*"), ("searcher", "~jobs:b +xinfo +scan +type"), ("stranger", "~jobs:b +xinfo")):
            client.execute_command("ACL", "SETUSER", user, "reset", "on", ">secret", *rights.split())


@_world
def layout_job_odd(world: World) -> None:
    """Makes a job-queue with lost, cancelled and conflicting jobs, a dirq with elements of several files, an nq beside boxes."""
    builders.LAYOUTS["job-queue"](Path("jobs"))
    write("jobs/jobs/gone-1.state", "queued:1795220920720", age=HOUR)
    Path("jobs/jobs/wait-1.state").unlink()
    for name in ("000000000009-retry-1", "000000000010-slow-1"):
        write(f"jobs/queue/{name}.msg", "{}")
    builders.LAYOUTS["dirq-normal"](Path("elements"))
    element, large = Path("elements/6b00e590/6b00e5b7c2217f"), Path("elements/6b00e590/6b00e5b7c22b9f")
    write(element / "header", "to=you\n")
    (element / "link").symlink_to("/etc/passwd")
    for number in range(200):
        write(large / f"part{number}", "x")
    os.mkfifo(large / "pipe")
    Path("elements/temporary/6b00e5b7c2ffff").mkdir()
    builders.LAYOUTS["nq"](Path("boxes"))
    for name in ("tmp", "new", "cur"):
        Path("boxes", name).mkdir()


@_world
def layout_postfix(world: World) -> None:
    """Makes a queue of Postfix: letters of one sender, one of the system, some forged or cut off, one that is not due."""

    def letter(name: str, *records: tuple[str, str], age: float = 0.0) -> None:
        data = b""
        for kind, text in records:
            size = len(text)
            data += kind.encode() + bytes([size] if size < 0x80 else [size & 0x7F | 0x80, size >> 7]) + text.encode()
        write(f"queue/deferred/A/{name}", data, age)

    for name in ("active", "incoming", "hold", "pid"):
        Path("queue", name).mkdir(parents=True)
    put = "1795220920 669465"
    for number in range(3):
        sender = ("S", f"n{number}@Letter.example")
        letter(f"A00000000{number}", ("C", " 276 "), ("T", put), ("A", "x" * 300), sender, ("M", ""), ("S", "late@x"), age=HOUR)
    letter("A000000003", ("T", "1795120920"), ("S", ""), age=HOUR)
    letter("A000000004", ("T", put), ("M", ""), ("S", "in@the.message"), age=HOUR)
    letter("A000000005", ("T", "x 1"), ("S", "a@b@c.example"), ("S", "second@x"), age=HOUR)
    letter("A000000006", ("T", put), ("S", "root"), age=-2.5 * HOUR)
    for number, data in enumerate((b"", b"S", b"S\xff\xff\xff\xff\xff\xff\xff\x01x", b"S\x7fshort", b"T\x80", b"\0" * 70_000)):
        write(f"queue/deferred/A/AFFFFFFF0{number}", data, HOUR)


for _name in ("seed_maildirqueue", "seed_atomicfilequeue"):
    WORLDS[_name] = partial(stored, name=_name)
for _name in builders.LAYOUTS:
    WORLDS[f"layout-{_name}"] = partial(layout, name=_name)
