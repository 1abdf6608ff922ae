"""Makes one queue of each program in every state that an operator meets, and says what is in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .actor import is_running, job_queue, library, nq, parent_of, wait_for
from .postfix import Postfix

__all__ = ["MAKERS", "Made", "read_made"]


@dataclass
class Made:
    """The truth about a queue, as whoever made it knows it: ``layout`` is its name, ``boxes`` the ids in each. By id: the times
    between which it was put, when it is due (likewise), the verdict and words of its evidence now that no process works on it,
    its note, its reason, and its source. ``findings`` are ids by code, ``locks`` the verdicts of locks by file name. ``slack``
    are seconds by which a time that is shown may lie before the put: names cut it off, the time of a file lags a little."""

    layout: str
    boxes: dict[str, list[str]] = field(default_factory=dict)
    put: dict[str, tuple[float, float]] = field(default_factory=dict)
    due: dict[str, tuple[float, float]] = field(default_factory=dict)
    verdicts: dict[str, tuple[str, str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    slack: float = 0.02

    @contextmanager
    def putting(self, box: str, *ids: str) -> Iterator[list[str]]:
        """Notes that what is put inside has these ids (or those that are added to the list), and when."""
        began, found = time.time(), list(ids)
        yield found
        for one in found:
            self.put[one] = (began, time.time())
        self.boxes.setdefault(box, []).extend(found)

    def moved(self, id: str, before: str, box: str) -> None:
        self.boxes[before].remove(id)
        self.boxes.setdefault(box, []).append(id)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")


def read_made(path: Path) -> Made:
    return Made(**json.loads(path.read_text()))


def make_job_queue(spool: Path) -> Made:
    made = Made("job-queue FileStorage")
    with job_queue(spool, "producer") as producer, job_queue(spool, "worker-1") as worker:
        worker.ask("work")
        producer.ask("put", id="ok-1", payload={"result": 1})
        producer.ask("put", id="bad-1", payload={"error": "boom"})
        worker.ask("wait", id="bad-1", event="failed")
        made.boxes["rejected"], made.reasons["bad-1"] = ["bad-1"], "boom"
        with made.putting("cur", "slow-1"):
            producer.ask("put", id="slow-1", payload={"hang": True})
            worker.ask("wait", id="slow-1", event="begun")
        worker.kill()
        made.verdicts["slow-1"] = ("dead", "no process watches queue/, so no worker runs")
        with job_queue(spool, "worker-2", VISIBILITY="200") as stopped:
            stopped.ask("work")
            producer.ask("put", id="gone-1", payload={"hang": True})
            stopped.ask("wait", id="gone-1", event="begun")
            stopped.ask("stop")  # it waits 200 ms for the job, then removes its own folder of claims
        made.findings["lost"] = ["gone-1"]
        with made.putting("new", "dup-1", "dup-1", "dup-1-before"):
            producer.ask("twice", id="dup-1")
        made.findings["conflict"] = ["dup-1"]
        with made.putting("new", "cancelled-1"):
            producer.ask("put", id="cancelled-1")
        producer.ask("cancel", id="cancelled-1")
        made.notes["cancelled-1"] = "cancelled: it has no state, a worker drops it when it comes"
        with made.putting("new", "wait-1"):
            producer.ask("put", id="wait-1")
        producer.kill()
    made.locks["cleanup-leader.lock"] = "held"
    state = spool / "jobs" / "gone-1.state"
    wait_for(lambda: time.time() - state.stat().st_mtime > 5.1)  # younger ones may be about to be written
    return made


def make_dirq_simple(spool: Path) -> Made:
    made = Made("dirq simple")
    with library("dirq_simple", spool) as one, library("dirq_simple", spool) as other, library("dirq_simple", spool) as third:
        for number in range(4):
            with made.putting("new") as ids:
                ids.append(element := one.ask("put", data=f"message {number}").partition("/")[2])
        names = one.ask("names")
        assert one.ask("lock", name=names[0])
        made.moved(names[0].partition("/")[2], "new", "cur")
        made.verdicts[names[0].partition("/")[2]] = ("unknown", "its claim names nobody")
        other.ask("lock", name=names[1])
        other.ask("cut", name="unlink")
        other.dies("remove", name=names[1])  # the element is gone, its lock stays
        made.boxes["new"].remove(names[1].partition("/")[2])
        made.locks[names[1].partition("/")[2] + ".lck"] = "stale"
        third.ask("cut", name="link", before=True)
        third.dies("put", data="begun")
        (draft,) = (path for path in spool.glob("*/*.tmp"))
        made.boxes["tmp"] = [draft.name.removesuffix(".tmp")]
        made.verdicts[draft.name.removesuffix(".tmp")] = ("unknown", "nobody has it open; its holder may live all the same")
        assert element and one.ask("size") == 3
    return made


def make_dirq_normal(spool: Path) -> Made:
    made = Made("dirq normal")
    with library("dirq_normal", spool) as one, library("dirq_normal", spool) as other, library("dirq_normal", spool) as third:
        for number in range(4):
            with made.putting("new") as ids:
                ids.append(one.ask("put", data=f"message {number}").partition("/")[2])
        names = one.ask("names")
        assert one.ask("lock", name=names[0])
        made.moved(names[0].partition("/")[2], "new", "cur")
        made.verdicts[names[0].partition("/")[2]] = ("unknown", "its claim names nobody")
        other.ask("lock", name=names[1])
        other.ask("cut", name="rename")
        other.dies("remove", name=names[1])
        made.boxes["new"].remove(names[1].partition("/")[2])
        third.ask("cut", name="mkdir")
        third.dies("put", data="begun")
        made.boxes["tmp"] = [path.name for path in (*spool.glob("temporary/*"), *spool.glob("obsolete/*"))]
        made.verdicts |= dict.fromkeys(made.boxes["tmp"], ("unknown", "its claim names nobody"))
        assert len(made.boxes["tmp"]) == 2 and one.ask("size") == 5  # its count is that of all folders
    return made


def make_huey(spool: Path) -> Made:
    made = Made("huey FileStorage")
    with library("huey_files", spool) as one, library("huey_files", spool) as other, library("huey_files", spool) as third:
        began = time.time()
        one.ask("put", data="later", delay=3600)
        one.ask("take")  # a worker puts it on the schedule
        (later,) = (path.name for path in (spool / "schedule").iterdir())
        made.boxes["new"], made.due[later] = [later], (began + 3599, time.time() + 3601)
        one.ask("put", data="soon", delay=0.2)
        one.ask("take")
        with made.putting("new") as ids:
            for number in range(3):
                one.ask("put", data=f"message {number}")
            one.ask("put", data="first", priority=5)
            ids += [path.name for path in (spool / "queue").iterdir()]
        first = min(made.boxes["new"], key=lambda name: (len(name) < 17, name))
        other.ask("cut", name="rename")
        other.dies("take")
        made.moved(first, "new", "tmp")
        third.ask("cut", name="rename")
        third.dies("due", after=2.0)
        (due,) = (path.name for path in (spool / "schedule").glob("*.tmp"))
        made.boxes["tmp"] = [first, due.removesuffix(".tmp")]
        made.verdicts |= dict.fromkeys(made.boxes["tmp"], ("abandoned", "nobody locks .lock"))
        assert one.ask("size") == 4
    return made


def make_kombu(spool: Path) -> Made:
    made = Made("kombu filesystem")
    with library("kombu_files", spool) as one:
        one.ask("size")
        for number in range(4):
            with made.putting("new") as ids:
                before = {*(spool / "in").iterdir()}
                one.ask("put", data=f"message {number}", queue="jobs" if number else "mails")
                ids += [path.name.partition("_")[2].partition(".")[0] for path in {*(spool / "in").iterdir()} - before]
                made.sources[ids[0]] = "jobs" if number else "mails"
        assert one.ask("take")  # of those that were put within a millisecond any is the first
        (taken,) = (spool / "processed").iterdir()
        made.moved(taken.name.partition("_")[2].partition(".")[0], "new", "delivered")
        assert one.ask("size") == 2
    return made


def make_nq(spool: Path) -> Made:
    made = Made("nq")
    with made.putting("delivered") as ids:
        ids.append(nq(spool, "true"))
        ids.append(nq(spool, "sh", "-c", "yes hello | head -n 40000; exit 3"))
        ids.append(nq(spool, "sh", "-c", "kill -15 $$"))
        subprocess.run(["nq", "-w", *ids], env={**os.environ, "NQDIR": str(spool)}, check=True)
    made.reasons |= dict(zip(ids, ("exited with status 0", "exited with status 3", "killed by signal 15"), strict=True))
    with made.putting("cur") as ids:
        ids += [nq(spool, "sleep", "600"), nq(spool, "echo", "never")]
        wait_for(lambda: (spool / ids[0]).stat().st_mode & 0o100 and (spool / ids[1]).stat().st_size)
    for id in reversed(ids):  # the one that waits dies before its turn, the one that runs in the middle
        pid = int(id.rpartition(".")[2])
        for each in (parent_of(pid), pid):  # the parent first: it would write how the other ended
            os.kill(each, signal.SIGKILL)
            wait_for(lambda each=each: not is_running(each))
    made.verdicts |= {id: ("dead", f"nobody locks {id}") for id in ids}
    return made


def make_mailman(spool: Path) -> Made:
    made = Made("Mailman queue", slack=1.0)
    with library("mailman_queue", spool, MAILMAN_HOME=f"{spool}.home") as one:
        ids = {}
        for subject, queue in (("bad", "in"), ("claimed", "in"), ("waits", "in"), ("leaves", "out"), ("shunted", "shunt")):
            with made.putting("rejected" if queue == "shunt" else "new") as put:
                base = one.ask("put", data=subject, queue=queue)
                put.append(base.partition("+")[2])
                ids[subject] = put[0]
                made.sources |= {put[0]: queue} if queue != "shunt" else {}
            if subject == "bad":
                one.ask("take", end=False)
                one.ask("finish", queue="in", base=base, preserve=True)
        made.moved(ids["bad"], "new", "rejected")
        made.sources.pop(ids["bad"])
        assert one.ask("take", end=False) == "claimed"
        one.kill()
    made.moved(ids["claimed"], "new", "cur")
    made.verdicts[ids["claimed"]] = ("unknown", "its claim names nobody")
    return made


def make_postfix(spool: Path) -> Made:
    """Its instance lies in a folder beside ``spool``, which becomes a copy of its queue."""
    made = Made("Postfix queue", slack=0.5)  # it is put when sendmail begins
    with Postfix(spool.with_suffix(".home")) as postfix:
        for number in range(3):
            postfix.mail(f"news{number}@letter.example", "ann@away.example")
        postfix.mail("Bob@Shop.example", "ann@away.example")
        wait_for(lambda: len(postfix.in_queue("deferred")) == 4)
        postfix.super("-h", postfix.in_queue("deferred")[0])
        for number in range(4):
            postfix.mail(f"ann{number}@slow-letter.example", "bob@slow.example")
        wait_for(lambda: len(postfix.in_queue("active")) == 2 and len(postfix.in_queue("incoming")) == 2)
    postfix.mail("late@letter.example", "ann@away.example")  # nobody picks it up
    boxes = {"deferred": "new", "incoming": "new", "maildrop": "new", "active": "cur", "hold": "held"}
    for one in postfix.listed():
        id, queue = one["queue_id"], one["queue_name"]
        made.boxes.setdefault(boxes[queue], []).append(id)
        made.put[id] = (one["arrival_time"], one["arrival_time"] + 1)
        made.sources[id] = one["sender"].rpartition("@")[2].lower()
        if queue == "deferred":
            made.reasons[id] = "the other side is away"
            due = (postfix.queue / "deferred" / id[0] / id).stat().st_mtime
            made.due[id] = (due - 1, due + 1)
        if queue == "active":
            made.verdicts[id] = ("dead", "nobody locks pid/master.pid")
    shutil.copytree(postfix.queue, spool, ignore=shutil.ignore_patterns("private", "public"))
    return made


MAKERS: dict[str, Callable[[Path], Made]] = {
    "job-queue": make_job_queue,
    "dirq-simple": make_dirq_simple,
    "dirq-normal": make_dirq_normal,
    "huey": make_huey,
    "kombu": make_kombu,
    "nq": make_nq,
    "mailman": make_mailman,
    "postfix": make_postfix,
}
"""Functions that make a queue, by the name of its layout's file."""
