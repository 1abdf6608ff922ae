"""Kinds of paths, and the hint for a path that is not quite a spool."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.errors import MailFolder, NotASpool, Refused, SpooltopError
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box
from tests.cli.streams import spooltop
from tests.needs import needs
from tests.programs.stored import STORED, unpacked

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def fill(path: Path, *names: str) -> Path:
    """Makes a directory with these files; a name that ends in ``/`` is a directory, and ``a -> b`` a link."""
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        target = path / name.partition(" -> ")[0]
        target.parent.mkdir(parents=True, exist_ok=True)
        if " -> " in name:
            target.symlink_to(name.partition(" -> ")[2])
        elif name.endswith("/"):
            target.mkdir(exist_ok=True)
        else:
            target.write_text("x")
    return path


def opened(path: Path | str, **options: Any) -> Control:
    return open_control(str(path), watch=False, settings={}, **options)


def kind_of(path: Path | str, **options: Any) -> str:
    with opened(path, **options) as control:
        return control.layout


def said(path: str | Path) -> str:
    """Returns the text of the error for ``path``; nothing may be created on the way."""
    before = sorted(os.walk(os.path.dirname(path) or "."))
    with pytest.raises(SpooltopError) as caught:
        opened(path)
    assert sorted(os.walk(os.path.dirname(path) or ".")) == before
    assert caught.value.exit_code == 5 and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "names", [["real/tmp/", "real/new/", "real/cur/", "it -> real"], ["it/new/", "it/cur/"], ["it/tmp/", "it/new/"]]
)
def test_a_spool_may_be_a_link_or_lack_a_box(tmp_path: Path, names: list[str]) -> None:
    fill(tmp_path, *names)
    with opened(tmp_path / "it") as control:
        boxes = control.look().observation.boxes
        assert control.layout == "spool"
        for box in (Box.TMP, Box.NEW, Box.CUR):
            assert boxes[box].error == ("" if (tmp_path / "it" / box).exists() else f"{box} is missing")


MAIL = [
    ["dovecot-uidlist"], ["courierimapuiddb"], ["maildirfolder"], ["maildirsize"], [".Archive/maildirfolder"],
    ["cur/x:2,S"], ["cur/x:2,"], ["cur/1795220920443125.9155.vm:2,S", "cur/x:2,P4242"], ["cur/1795220919.M782871P9155Q3.vm:2,"],
    ["new/1795220919.M782871P9155Q3.vm"],  # Python's mailbox
    ["new/1795220919.M782871P9155.vm,S=2043,W=2090"],  # Dovecot
    ["new/1795220919.M782871P9155V0000000000000803I00A1B2C3_0.vm,S=512"],  # Courier
    ["new/1795220919.Vfd00I1e240M782871.vm"], ["tmp/1795220919.Vfd00I1e240M782871.vm"],  # Postfix
    ["new/1795220919.H782871P9155.vm"],  # exim
    ["new/1795220919.M1P1.vm", f"cur/1795220920443125.P5R0123456789abcdef.vm,c={'ab' * 16}.1795222800000000:2,P7"],
    ["new/1795220919.M1P1.vm", "new/1795220920443125.P5R0123456789abcdef.vm", ".spooltop/format"],
]  # fmt: skip
JOBS = [
    [".spooltop/format", "my-maildirfolder"], ["new/1795220920443386.9155.vm", "new/report.txt", "new/a:2,S"],
    ["cur/1795220920443125.9155.vm:2,P4242", "cur/x:P4242", "cur/y:2,", "cur/z:2,S1"], ["cur/1795318000.M1P1.vm:P5810"],
    ["cur/1795318000.M1P1.vm:P5810", "new/1795318001.M2P1.vm"], ["new/1795220920.9155.vm", "cur/1795220919.9154.vm:2,P4242"],
    ["new/1795220920.9155.vm", "cur/1795220919.9154.vm:P4242"], ["new/1795220920.9155.vm", ".spooltop/format"],
    ["new/1795220920.9155.vm", "new/1795220920443125.P5R0123456789abcdef.vm"],
    ["new/1795220919.M1P1.vm,n=0"], ["new/1795220920.42"],
]  # fmt: skip
DOUBTFUL = [
    ["new/1795220920.9155.vm"], ["cur/1795220920.9155.vm"],  # qmail, and $(date +%s).$$.$(hostname)
    ["new/1795220920.9155_3.vm"],  # procmail
    ["new/1795220920_0.9155.vm"],  # mutt
    [".Archive/tmp/", ".Archive/new/", ".Archive/cur/"],
]  # fmt: skip


@pytest.mark.parametrize("names", [*MAIL, *DOUBTFUL], ids=" ".join)
def test_mail_is_read_only_for_the_dashboard_and_refused_by_the_engine(tmp_path: Path, names: list[str]) -> None:
    path = fill(tmp_path / "s", "tmp/", "new/", "cur/", *names)
    with opened(path) as control:
        assert control.layout == "mail" and control.why_read_only is not None
        assert ("cannot be told apart" in control.why_read_only) is (names in DOUBTFUL)
        assert f"spooltop --as spool {path}" in control.why_read_only
        with pytest.raises(MailFolder) as refused:
            Spool(path)
        assert refused.value.what in control.why_read_only
    assert kind_of(path, as_kind="spool") == "spool"
    Spool(path, as_spool=True).close()


def test_nothing_changes_a_folder_into_which_mail_came_after_it_was_opened(tmp_path: Path) -> None:
    path = fill(tmp_path / "s", "tmp/", "new/", "cur/", "new/a")
    with opened(path) as control:
        fill(path, "cur/x:2,S")
        with pytest.raises(Refused, match="this is a mail folder"):
            control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True))
    assert (path / "new/a").exists() and (path / "cur/x:2,S").exists()


@pytest.mark.parametrize("names", JOBS, ids=" ".join)
def test_a_job_spool_is_one_for_the_dashboard_and_the_engine(tmp_path: Path, names: list[str]) -> None:
    path = fill(tmp_path / "s", "tmp/", "new/", "cur/", *names)
    assert kind_of(path) == "spool"
    Spool(path).close()


@pytest.mark.parametrize(
    ("names", "path", "hint"),
    [
        (["tmp/", "new/", "cur -> ."], "", "its cur is a symbolic link"),
        (["tmp/", "new/m", "cur/"], "new/m", "spooltop {} "),
        (["tmp/", "new/", "cur/", ".spooltop/held/"], ".spooltop", "spooltop {}"),
        (["l -> l"], "l", "circle"),
        (["jobs/x/"], "jbos/x", "did you mean {}/jobs/x?"),
    ],
)  # fmt: skip
def test_a_path_that_is_not_quite_a_spool_gets_a_hint(tmp_path: Path, names: list[str], path: str, hint: str) -> None:
    place = fill(tmp_path / "s", *names)
    assert hint.format(place) in said(place / path) + " "


def test_what_names_nothing_that_can_be_opened(tmp_path: Path) -> None:
    with pytest.raises(NotASpool, match="NUL"):
        opened("a\0b")
    os.mkfifo(tmp_path / "p")
    assert "not a directory" in said(tmp_path / "p")  # and does not hang
    done = spooltop("status", "/proc")
    assert done.code == 5 and "init" not in done.err and LAYOUTS in done.err


MESSAGE = "123_0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f.celery.msg"


@pytest.mark.parametrize(
    ("names", "layout", "advice"),
    [
        (["input/1nAbCd-0001Ef-Gh-H", "msglog/"], "a spool of exim", "exim -bp"),
        (["input/1nAbCd-00000001EfG-Gh12-D"], "a spool of exim", "exim -bp"),
        (["1nAbCd-0001Ef-Gh-H", "1nAbCd-0001Ef-Gh-D"], "the input directory of an exim spool", "exim -bp"),
        (["qf4ANDQvXh004188", "df4ANDQvXh004188"], "a queue of sendmail", "mailq"),
        (["mess/", "info/", "todo/", "remote/"], "a queue of qmail", "qmail-qread"),
        (["msgs/", "msgq/"], "a queue of Courier", "mailq"),
        (["qf/", "df/", "xf/"], "a queue of sendmail", "mailq"),
        (["subscribers.d/", "control/", "queue/", "archive/"], "a mailing list of mlmmj", "/queue"),
        (["system.journal", "user-1000.journal"], "a journal of systemd", "journalctl --directory="),
        (["queue/", "offline/", "purge/"], "a queue of OpenSMTPD", "smtpctl show queue"),
        (["M428124.55c5167e7060", "Q428124.55c5167e7060"], "a queue of dma", "dma -bp"),
        ([".SEQ", "a0000101c898c6", "b0000201c8984e"], "the jobs of at", "atq"),
        ([".SEQ"], "the jobs of at, of which there are none", "atq"),
        (["c00001", "d00001-001", "tmp/"], "the jobs of CUPS", "lpstat -o"),
        (["1", "2", ".mh_sequences"], "a mail folder of MH, not a queue", "scan +FOLDER"),
        (["rabbit@host/", "rabbit@host.pid"], "the data of RabbitMQ", "rabbitmqctl list_queues"),
        (["dump.rdb"], "Bull, Sidekiq, RQ and Celery keep their queues", "redis-cli"),
        (["meta.properties", "jobs-0/00000000000000000000.log"], "the data of Kafka", "kafka-consumer-groups.sh"),
        (["db.data", "db.redo", "db-1.log"], "the store of ActiveMQ", "dstat"),
        (["jobs.diskqueue.meta.dat", "jobs.diskqueue.000000.dat"], "the queues of nsqd", "stats"),
        (["binlog.1"], "the log of beanstalkd", "stats"),
        (["fwd.qi", "fwd.00000001"], "a disk queue of rsyslog", "impstats"),
        ([f"mine/{MESSAGE}", "processed/", "control/"], "kombu's filesystem transport (Celery)", "ls -tr {}/mine"),
        ([MESSAGE], "kombu's filesystem transport (Celery)", "ls -tr {}"),
        (["info", "q00000"], "a file queue of persist-queue", "import Queue; print(Queue(\"{}\").qsize())"),
        (["data.db"], "as persist-queue keeps it", "sqlite3 -readonly {}/data.db .schema"),
        (["info.json", "q00000"], "a FIFO queue of queuelib", "cat {}/info.json"),
        (["cache.db", "ab/cd/x.val"], "a diskcache", "diskcache import Cache; print(len(Cache(\"{}\")))"),
        (["6b00e590/"], "perhaps a dirq directory queue, but nothing is in it", "QueueSimple"),
        (["queue/fffe-01a1fb81560d"], "a huey FileStorage without its .lock", "ls {}/queue"),
    ],
)
def test_a_queue_that_is_not_opened_is_named(tmp_path: Path, names: list[str], layout: str, advice: str) -> None:
    text = said(fill(tmp_path / "q", *names))
    assert layout in text and advice.format(tmp_path / "q") in text
    assert "init" not in text and "tmp, new" not in text


@pytest.mark.parametrize("name", [path.name.partition(".")[0] for path in sorted(STORED.iterdir())])
def test_a_queue_that_a_layout_opens_is_never_refused(tmp_path: Path, name: str) -> None:
    spool, made = unpacked(name, tmp_path)
    with open_control(str(spool), watch=False, settings={}) as control:
        assert control.look().observation.program == made.layout
    inside = max((path for path in spool.rglob("*") if path.is_dir()), key=lambda path: len(path.parts), default=None)
    if inside is not None:
        with pytest.raises(NotASpool) as caught:
            open_control(str(inside), watch=False, settings={})
        assert str(caught.value) == f"{inside}: only a part of a queue ({made.layout}); open the queue: spooltop {spool}"


def test_an_sqlite_file_is_told_from_one_of_litequeue(tmp_path: Path) -> None:
    for name, columns in (("queue.db", "data TEXT, message_id TEXT, lock_time INTEGER, done_time INTEGER"), ("other.db", "x")):
        with closing(sqlite3.connect(tmp_path / name)) as made:
            made.execute(f"CREATE TABLE Queue ({columns})")
            made.commit()
    assert f'sqlite3 -readonly {tmp_path}/queue.db "select status' in said(tmp_path / "queue.db")
    text = said(tmp_path / "other.db")
    assert "litequeue" not in text and f"sqlite3 -readonly {tmp_path}/other.db .schema" in text


def test_lock_files_are_opened_or_pointed_at(tmp_path: Path) -> None:
    run = fill(tmp_path / "run", "a.lock", "b.lck", "b", ".hidden", "dir.lock/", "notes")
    assert f"3 lock files inside; look at them: spooltop locks {run}" in said(run)
    assert kind_of(run, locks=True) == "locks"
    spool = fill(tmp_path / "s", "tmp/", "new/", "cur/")
    assert kind_of(spool, locks=True) == "spool"
    with pytest.raises(NotASpool, match="only the box new of a spool"):
        opened(spool / "new", locks=True)


def test_cursors_are_opened_by_each_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "x" / "cursors"
    folder.mkdir(parents=True)
    for source in ("imessage", "email"):
        (folder / f"{source}.json").write_text("89632")
    for path, sources in ((tmp_path / "x", 2), (folder, 2), (folder / "email.json", 1)):
        done = spooltop("cursors", path, "--json")
        assert [json.loads(line)["value"] for line in done.out.splitlines()] == [89632] * sources, done.err
    (folder / "notes.txt").write_text('{"imessage": 5}')
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "state.json").write_text('{"imessage": 5}')
    (tmp_path / "y" / "cursors.json").symlink_to("state.json")
    for path in (tmp_path / "y", tmp_path / "y" / "cursors.json"):
        done = spooltop("cursors", path)
        assert done.code == 5 and f"spooltop cursors --cursor-file {tmp_path}/y/state.json\n" in done.err
    for path in (tmp_path / "y" / "state.json", folder / "notes.txt"):  # another file is no cursor file
        done = spooltop("cursors", path)
        assert done.code == 5 and not done.out


@needs("root")
@pytest.mark.parametrize(
    "closed", [("deep",), ("deep/s",), ("deep/s/tmp", "deep/s/new", "deep/s/cur"), ("deep/s/cur",)], ids=" ".join
)
def test_no_permission_names_the_owner(closed: tuple[str, ...]) -> None:
    """One closed box is no reason not to open."""
    with tempfile.TemporaryDirectory(prefix="spooltop-test-") as above:  # pytest's own are closed to others
        Path(above).chmod(0o755)
        spool = fill(Path(above, "deep/s"), "tmp/", "new/", "cur/")
        for folder in closed:
            Path(above, folder).chmod(0o700)
        words = [*NOBODY, sys.executable, "-m", "spooltop", "status", str(spool)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if closed == ("deep/s/cur",):
        assert done.returncode == 0 and "cur: permission denied" in done.stdout
    else:
        assert done.returncode == 5 and f"sudo -u root spooltop {spool}" in done.stderr


LAYOUTS = "spooltop layouts lists them"
UNPLANNED: dict[str, tuple[list[str], str, str]] = {
    "empty": ([], "an empty directory", "spooltop init {}"),
    "a repository": (["HEAD", "config", "objects/", "refs/heads/main"], "not a spool: no tmp/", LAYOUTS),
    "a hot folder with stages": (["in/a.mov", "work/", "done/b.mov", "failed/"], "not a spool: no tmp/", LAYOUTS),
    "two boxes": (["tmp/", "cur/"], "new missing, only tmp and cur there", LAYOUTS),
    "a root directory": (["bin/", "etc/", "tmp/", "var/"], "new and cur missing, only tmp there", LAYOUTS),
    "a source tree": (["queue/a.ts", "processing/a.ts", "jobs/send.ts", "workers/pool.ts"], "not a spool: no tmp/", LAYOUTS),
    "a source tree with results": (
        [f"{name}/a.ts" for name in ("queue", "processing", "jobs", "workers", "results", "errors")], "not a spool", LAYOUTS
    ),
    "a source tree with a lock": (
        ["queue/queue.py", "results/view.py", "schedule/a.py", ".lock"], "not a spool; a lock file inside", "spooltop locks {}",
    ),
    "a drained huey": (["queue/", ".lock"], "perhaps a huey FileStorage, but nothing is in it", "--as 'huey FileStorage' {}"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNPLANNED)
def test_a_directory_that_nobody_planned_for_gets_the_hint_that_fits(tmp_path: Path, what: str) -> None:
    names, why, advice = UNPLANNED[what]
    path = fill(tmp_path / "it", *names)
    before = sorted(os.walk(path))
    for command in ("status", "ls", "requeue"):
        done = spooltop(command, path, *(["ALL", "--yes"] if command == "requeue" else []))
        assert done.code == 5 and sorted(os.walk(path)) == before
        assert done.err.startswith(f"spooltop: {path}: {why}") and advice.format(path) in done.err, done.err
        assert ("init" in done.err) is (what == "empty")


@pytest.mark.parametrize(
    "names",
    [
        ["queue/ffff-01a1fb81560d", ".lock"], ["queue/", "schedule/01a1fb8448d", ".lock"],
        ["queue/", "results/c/4/c4ca4238a0b923820dcc509a6f75849b", ".lock"],
        ["queue/", "counters/4a8a08f09d37b73795649038408b5f33", ".lock"],
        [f"{name}/" for name in ("queue", "processing", "jobs", "results", "errors", "workers", "notify")],  # a drained job queue
    ],
)  # fmt: skip
def test_another_programs_queue_shows_itself_by_what_it_wrote(tmp_path: Path, names: list[str]) -> None:
    assert spooltop("status", fill(tmp_path / "q", *names)).code == 0
