"""The evidence of each layout that ships: what shows that a holder lives or is dead, and what shows neither.

Each row that ends in ``unknown`` is a counterexample: it can be seen while the holder lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from spooltop.backends.layouts.reader import LayoutReader
from spooltop.control import open_control
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box, Row, Verdict
from tests.backends.layouts.queues import NOW, Around, opened, outcomes, use_own_layouts
from tests.cli.streams import spooltop

ALIVE, DEAD, UNKNOWN, WRITING, ABANDONED = (
    Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN, Verdict.WRITING, Verdict.ABANDONED,
)  # fmt: skip
HASH = "0" * 40
LATER = f"{int((NOW - 9) * 1000)}"


class Kind(NamedTuple):
    """A file whose holder is judged. ``path`` is the path of its match; ``files`` are made, a directory for a path with a slash
    at its end, executable after a ``!``. ``rows`` are what the machine shows, the verdict, and the beginning of its words."""

    layout: str
    path: str
    files: Sequence[str]
    rows: Sequence[tuple[Around, Verdict, str]]


NOBODY = "its claim names nobody"
ANY = (Around(), Around(alive=[77], opening=[77], locking=[77], watching=[77]), Around(seen=False), Around(local=False))
NAMELESS = [(around, UNKNOWN, NOBODY) for around in ANY]
CLOSED = "nobody has it open; its holder may live all the same"
UNSEEN = "the processes of other users cannot be seen"
NQ_ROWS = [
    (Around(locking=[77], alive=[77]), ALIVE, "locked by pid 77"),
    (Around(locking=[78]), ALIVE, "locked by pid 78"),  # a process of its job that took the lock over
    (Around(), DEAD, "nobody locks ,1a1fb81560e.77; pid 77: exited"),
    # the waiting half was killed, and the job writes its output elsewhere
    (Around(alive=[77]), UNKNOWN, "nobody locks ,1a1fb81560e.77; pid 77: running"),
    # the job was killed, and what it started holds the lock: the table of another pid namespace does not show it
    (Around(seen=False), UNKNOWN, UNSEEN),
    (Around(sure=False), UNKNOWN, "no such pid here"),
    (Around(local=False), UNKNOWN, "nobody here locks ,1a1fb81560e.77; another machine may"),
]
POSTFIX_ROWS = [
    (Around(locking=[77]), ALIVE, "locked by pid 77"),
    (Around(opening=[78]), ALIVE, "pid 78 has it open"),  # the master was killed, who delivers it works on
    (Around(), DEAD, "nobody locks pid/master.pid; nobody has it open"),
    (Around(seen=False), UNKNOWN, UNSEEN),
    (Around(local=False), UNKNOWN, "nobody here locks pid/master.pid; another machine may"),
]
POSTFIX_WRITERS = [
    (Around(opening=[78]), WRITING, "pid 78 has it open"),
    (Around(), ABANDONED, "nobody has it open"),
    (Around(seen=False), UNKNOWN, UNSEEN),
    (Around(local=False), UNKNOWN, "nobody here has it open; another machine may"),
]
BEFORE_ITS_NAME = [
    (Around(opening=[77]), WRITING, "pid 77 has it open"),
    (Around(), UNKNOWN, CLOSED),  # it was closed, and is about to get its name
    (Around(seen=False), UNKNOWN, UNSEEN),
    (Around(local=False), UNKNOWN, "nobody here has it open; another machine may"),
]
_MAILMAN = "{source:archive|bounces|command|digest|in|nntp|out|pipeline|retry|"
KINDS = [
    Kind("dirq-simple", "{dir:hexsec}/{id:hex14}", ["6b00e590/6b00e5b7c2149f", "6b00e590/6b00e5b7c2149f.lck"], NAMELESS),
    Kind("dirq-simple", "{dir:hexsec}/{id:hex14}.tmp", ["6b00e590/6b00e5b7c2149f.tmp"], BEFORE_ITS_NAME),
    Kind("dirq-normal", "{dir:hexsec}/{id:hex14}/", ["6b00e590/6b00e5b7c2149f/locked/"], NAMELESS),
    Kind("dirq-normal", "{dir:temporary|obsolete}/{id:hex14}/", ["temporary/6b00e5b7c2149f/"], NAMELESS),
    Kind("huey", "{folder:queue|schedule}/{id}.tmp", [".lock", "queue/ffff-01a1fb81560d.tmp"], [
        (Around(locking=[77]), WRITING, "locked by pid 77"),
        (Around(), ABANDONED, "nobody locks .lock"),
        (Around(seen=False), UNKNOWN, UNSEEN),
        (Around(local=False), UNKNOWN, "nobody here locks .lock; another machine may"),
    ]),
    Kind("job-queue", "queue/.{pid:int}.{n:int}", ["queue/.77.0"], [
        (Around(alive=[77]), WRITING, "running"),
        (Around(), ABANDONED, "exited"),
        (Around(sure=False), UNKNOWN, "no such pid here"),  # another pid namespace, or another machine
    ]),
    Kind("job-queue", "processing/{owner}/{id}.msg", ["queue/", "processing/w/7.msg", f"workers/w.worker={LATER}"], [
        (Around(), DEAD, "no process watches queue/, so no worker runs; lease ended 9s ago"),
        (Around(watching=[77]), UNKNOWN, "pid 77 watches queue/, as its worker would; lease ended 9s ago"),
        # others are hidden, or a user has no inotify watch left: a worker then runs without one and tries again
        (Around(seen=False), UNKNOWN, f"{UNSEEN}; lease ended 9s ago"),
        (Around(local=False), UNKNOWN, "nobody here watches queue/; another machine may; lease ended 9s ago"),
    ]),
    Kind("mailman", f"{_MAILMAN}shunt|virgin}}/{{put:sec}}.{{part:int}}+{{id:hex40}}.pck.tmp",
         [f"in/1795220920.1+{HASH}.pck.tmp"], BEFORE_ITS_NAME),
    Kind("mailman", f"{_MAILMAN}virgin}}/{{put:sec}}.{{part:int}}+{{id:hex40}}.bak", [f"in/1795220920.1+{HASH}.bak"], NAMELESS),
    Kind("nq", ",{put:hexms}.{pid:int}", ["!,1a1fb81560e.77"], NQ_ROWS),
    Kind("nullmailer", "tmp/{pid:int}", ["tmp/77"], NAMELESS),
    Kind("postfix", "active/{id:pfid}", ["pid/master.pid", "active/4XyZa7"], POSTFIX_ROWS),
    Kind("postfix", "active/{hash}/{id:pfid}", ["pid/master.pid", "active/4/4XyZa7"], POSTFIX_ROWS),
    Kind("postfix", "active/{id:pfid}", ["active/4XyZa7"], [(Around(), UNKNOWN, "pid/master.pid cannot be seen")]),  # a copy
    Kind("postfix", "{queue:incoming|maildrop}/{id:pfid}", ["incoming/4XyZa7"], POSTFIX_WRITERS),
]  # fmt: skip
ROWS = [(kind, *row) for kind in KINDS for row in kind.rows]


def made(queue: Path, files: Sequence[str]) -> None:
    for name in files:
        name, _, text = name.partition("=")
        path = queue / name.removeprefix("!")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_text(text)
            path.chmod(0o700 if name.startswith("!") else 0o600)


def looked(queue: Path, layout: str, around: Around | None) -> Row:
    """The only file whose holder is judged; by this machine without ``around``."""
    options = {"watch": False, "clock": lambda: NOW, "settings": {}}
    with opened(queue, layout, around) if around else open_control(str(queue), as_kind=layout, **options) as control:
        seen = control.look().observation
    (row,) = [*seen.claims, *seen.tmp]
    assert seen.proves_death or row.verdict is not DEAD
    return row


def test_each_kind_of_each_layout_that_ships_stands_in_the_table() -> None:
    files = [Path(json.loads(line)["file"]) for line in spooltop("layouts", "--json").out.splitlines()]
    layouts = {file.stem: tomllib.loads(file.read_text()) for file in files}
    known = {
        (name, match["path"]) for name, layout in layouts.items() for match in layout["match"] if match["box"] in ("cur", "tmp")
    }
    assert {(kind.layout, kind.path) for kind in KINDS} == known


@pytest.mark.parametrize(
    ("kind", "around", "verdict", "evidence"), ROWS, ids=[f"{kind.layout} {kind.path} {words}" for kind, _, _, words in ROWS]
)
def test_the_evidence_of_a_layout(tmp_path: Path, kind: Kind, around: Around, verdict: Verdict, evidence: str) -> None:
    made(tmp_path, kind.files)
    row = looked(tmp_path, kind.layout, around)
    assert row.verdict is verdict and row.evidence.startswith(evidence), row


def test_no_kind_is_dead_without_a_counterexample_that_is_unknown() -> None:
    for kind in KINDS:
        verdicts = {verdict for _, verdict, _ in kind.rows}
        assert UNKNOWN in verdicts, kind.path
        assert verdicts.isdisjoint((DEAD, ABANDONED)) or len(verdicts) > 1, kind.path


MINE = """\
name = "mine"
detect = ["work/"]
[[match]]
box = "cur"
path = "work/{id}.{pid:int}"
metadata = { since = "mtime" }
verdict = """


def looked_by_rule(folder: Path, monkeypatch: pytest.MonkeyPatch, rule: str, around: Around, text: str = "") -> Row:
    """The claim of a queue whose own layout judges it by ``rule``. ``text`` is in the file ``until``."""
    use_own_layouts(folder, monkeypatch)
    (folder / "mine.toml").write_text(MINE + rule)
    made(folder / "queue", ["work/7.77", f"until={text}"])
    os.utime(folder / "queue/work/7.77", (1e9, 1e9))
    return looked(folder / "queue", "mine", around)


@pytest.mark.parametrize(
    ("rule", "text", "around", "verdict", "evidence"),
    [
        ('{ lease = "until:ms" }', LATER, Around(), DEAD, "its lease ended 9s ago"),
        ('{ lease = "until:ms" }', f"{int((NOW + 9) * 1000)}", Around(), ALIVE, "its lease runs 9s more"),
        ('{ lease = "until:ms" }', LATER, Around(local=False), UNKNOWN, "lease ended 9s ago"),  # its clock may be behind
        ('{ lease = "until:ms" }', "soon", Around(), UNKNOWN, "its lease cannot be read"),
        ('{ lease = "gone:ms" }', "", Around(), UNKNOWN, "no lease"),
        ('{ lease = "until:ms", proves = "nothing" }', LATER, Around(), UNKNOWN, "lease ended 9s ago"),  # nobody renews it
        ('{ lease = "until:ms", pid = "pid" }', LATER, Around(alive=[77]), UNKNOWN, "its lease ended 9s ago; pid 77: running"),
        ('{ lease = "until:ms", pid = "pid" }', LATER, Around(), DEAD, "its lease ended 9s ago; pid 77: exited"),
        ('{ pid = "pid" }', "", Around(), DEAD, "exited"),
        ('{ pid = "pid", proves = "nothing" }', "", Around(), UNKNOWN, "exited; its holder may live all the same"),
        ('{ pid = "pid", proves = "nothing" }', "", Around(alive=[77]), ALIVE, "running"),
        ('{ pidfile = "until" }', "77\n", Around(alive=[77]), ALIVE, "running"),
        ('{ pidfile = "until" }', "77\n", Around(), DEAD, "exited"),
        ('{ pidfile = "until" }', "soon\n", Around(), UNKNOWN, "until names no process"),
        ('{ open = "{path}", pid = "pid" }', "", Around(opening=[78]), ALIVE, "pid 78 has it open"),
        ('{ open = "{path}", pid = "pid" }', "", Around(seen=False), UNKNOWN, UNSEEN),
    ],
)
def test_the_evidence_that_a_layout_of_ones_own_may_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, text: str, around: Around, verdict: Verdict, evidence: str
) -> None:
    row = looked_by_rule(tmp_path, monkeypatch, rule, around, text)
    assert (row.verdict, row.evidence) == (verdict, evidence)


def test_a_process_is_compared_with_the_last_rename_of_its_claim_not_with_a_time_that_a_layout_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was started after the put of what it claims would be taken for another process with its number."""
    around = Around(alive=[77])
    row = looked_by_rule(tmp_path, monkeypatch, '{ pid = "pid" }', around)
    assert row.in_box_since == 1e9 and around.claims == [(77, (tmp_path / "queue/work/7.77").stat().st_ctime)]


@pytest.mark.parametrize("change", ["acked", "taken anew", "written"])
def test_what_changes_while_the_evidence_is_read_is_not_dead(tmp_path: Path, change: str) -> None:
    """A dequeue ends, and its lock is free: the file was its, and is gone or another one's."""
    made(tmp_path, KINDS[4].files)
    task = tmp_path / "queue/ffff-01a1fb81560d.tmp"

    class Ends(Around):
        def locks(self, root: int) -> Any:
            task.unlink()
            if change != "acked":
                task.write_text("another one")
            return super().locks(root)

    class Writes(Around):
        def locks(self, root: int) -> Any:
            task.chmod(0o644)
            return super().locks(root)

    row = looked(tmp_path, "huey", Writes() if change == "written" else Ends())
    assert (row.verdict, row.evidence) == (UNKNOWN, "it moved or changed while its holder was looked for")


def test_a_claim_that_is_taken_anew_after_its_step_has_asked_who_is_dead_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step asks once for all of its claims that name only a pid; each must be the same claim when its turn comes."""
    action = '{ pid = "pid" }\n[[action]]\nname = "purge"\nfrom = "cur"\nneeds = "dead"\nsteps = ["trash {path}"]\n'
    queue, around = tmp_path / "queue", Around()
    looked_by_rule(tmp_path, monkeypatch, action, around)
    made(queue, ["work/8.78"])
    asked = 0

    def pids(claims: Sequence[tuple[int, float]], root: int) -> list[tuple[Verdict, str]]:
        nonlocal asked
        asked += 1
        (queue / "work/8.78").rename(queue / "waits")
        (queue / "waits").rename(queue / "work/8.78")
        return [(DEAD, "exited") for _ in claims]

    with opened(queue, "mine", around) as control:
        plan = control.plan(Action.PURGE, Selection(box=Box.CUR, everything=True))
        monkeypatch.setattr(around, "pids", pids)
        result = control.apply(plan)
    assert asked == 1 and outcomes(result) == [("done", ""), ("skipped", "changed since the list was made")]


def test_a_message_that_went_before_it_was_pinned_is_gone_though_nothing_of_it_would_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = '{ pid = "pid" }\n[[action]]\nname = "purge"\nfrom = "cur"\nsteps = ["trash state/{id}"]\n'
    see = LayoutReader.see

    def program_is_quicker(reader: LayoutReader) -> None:
        see(reader)
        (tmp_path / "queue/work/7.77").unlink()

    looked_by_rule(tmp_path, monkeypatch, action, Around())
    with opened(tmp_path / "queue", "mine") as control:
        wanted = Selection(box=Box.CUR, everything=True)
        assert [one.reason for one in control.plan(Action.PURGE, wanted).refused] == ["there is nothing to change"]
        monkeypatch.setattr(LayoutReader, "see", program_is_quicker)
        assert [one.reason for one in control.plan(Action.PURGE, wanted).refused] == ["gone"]


@contextmanager
def process(code: str, *words: Path):  # type: ignore[no-untyped-def]
    """A process that runs ``code`` and says "ready"; it ends with its input."""
    said = "print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", f"import fcntl, os, struct, sys\n{code}\n{said}", *map(str, words)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as one:  # fmt: skip
        assert one.stdout is not None and select.select([one.stdout], [], [], 60)[0] and one.stdout.readline() == b"ready\n"
        try:
            yield one
        finally:
            one.kill()


REAL: Mapping[str, tuple[str, str, str]] = {
    "a lock that the kernel does not name": ("nq", "!,1a1fb81560e.4000077", """
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))  # F_OFD_SETLK
"""),
    "a lock whose taker is gone, kept by its child": ("nq", "!,1a1fb81560e.4000077", """
fd = os.open(sys.argv[1], os.O_RDWR)
taker = os.fork()
if not taker:
    fcntl.flock(fd, fcntl.LOCK_EX)
    os._exit(0)
os.waitpid(taker, 0)
"""),
    "a draft that was closed and has not got its name": ("dirq-simple", "6b00e590/6b00e5b7c2149f.tmp", """
os.close(os.open(sys.argv[1], os.O_RDWR))
"""),
}  # fmt: skip


@pytest.mark.parametrize(("layout", "name", "code"), REAL.values(), ids=REAL)
def test_a_living_process_is_never_dead(tmp_path: Path, layout: str, name: str, code: str) -> None:
    made(tmp_path, [name])
    with process(code, tmp_path / name.removeprefix("!")):
        assert looked(tmp_path, layout, None).verdict not in (DEAD, ABANDONED)


def test_a_job_of_nq_whose_waiting_half_was_killed_and_that_writes_elsewhere_is_not_dead(tmp_path: Path) -> None:
    with process("pass") as job:
        made(tmp_path, [f"!,1a1fb81560e.{job.pid}"])
        (name,) = os.listdir(tmp_path)
        with open(tmp_path / name) as waiting:
            fcntl.flock(waiting, fcntl.LOCK_EX)
            assert looked(tmp_path, "nq", None).verdict in (ALIVE, UNKNOWN)
        assert looked(tmp_path, "nq", None).verdict is UNKNOWN
