"""Classification of paths, and the hint for a path that is not quite a spool."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from spooltop.backends.directory.detect import IdentifiedPath, identify
from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.errors import MailFolder, NotASpool, SpooltopError
from spooltop.model.vocabulary import Box
from tests.cli.streams import spooltop
from tests.needs import needs
from tests.programs.stored import STORED, unpacked

ROOT = Path(__file__).parents[2]


def make(path: Path, *boxes: str) -> Path:
    for box in boxes or ("tmp", "new", "cur"):
        (path / box).mkdir(parents=True)
    return path


def said(path: str | Path) -> str:
    """Returns the text of the error for ``path``; nothing may be created on the way."""
    before = sorted(os.walk(os.path.dirname(path) or "."))
    with pytest.raises(SpooltopError) as caught:
        identify(str(path))
    assert sorted(os.walk(os.path.dirname(path) or ".")) == before
    assert caught.value.exit_code == 5
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("name", ["seed_maildirqueue", "seed_atomicfilequeue"])
def test_a_spool_of_other_programs_is_a_spool(real_spools: Path, name: str) -> None:
    assert identify(str(real_spools / name)) == IdentifiedPath("spool", str(real_spools / name))


def test_a_link_to_a_spool_is_followed(tmp_path: Path) -> None:
    make(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    assert identify(str(tmp_path / "link")).kind == "spool"


@pytest.mark.parametrize(("boxes", "missing"), [(("new", "cur"), Box.TMP), (("tmp", "new"), Box.CUR)])
def test_two_boxes_with_new_open_and_the_missing_one_is_named(tmp_path: Path, boxes: tuple[str, ...], missing: Box) -> None:
    assert identify(str(make(tmp_path / "s", *boxes))).missing == (missing,)


def test_two_boxes_without_new_are_no_spool(tmp_path: Path) -> None:
    assert "new missing, only tmp and cur there" in said(make(tmp_path / "s", "tmp", "cur"))


def test_a_mail_folder_is_read_only_and_says_why(real_spools: Path) -> None:
    path = str(real_spools / "maildir_stdlib")
    target = identify(path)
    assert target.kind == "mail"
    assert target.read_only is not None
    assert ":2,FS" in target.read_only
    assert f"spooltop --as spool {path}" in target.read_only
    assert identify(path, as_spool=True) == IdentifiedPath("spool", path)


MAIL = [
    ["dovecot-uidlist"],
    ["courierimapuiddb"],
    ["maildirfolder"],
    ["maildirsize"],
    [".Archive/maildirfolder"],
    ["cur/x:2,S"],
    ["cur/1795220920443125.9155.vm:2,S", "cur/x:2,P4242"],
    ["cur/x:2,"],
    ["cur/1795220919.M782871P9155Q3.vm:2,"],
    ["new/1795220919.M782871P9155Q3.vm"],  # Python's mailbox
    ["new/1795220919.M782871P9155.vm,S=2043,W=2090"],  # Dovecot
    ["new/1795220919.M782871P9155V0000000000000803I00A1B2C3_0.vm,S=512"],  # Courier
    ["new/1795220919.Vfd00I1e240M782871.vm"],  # Postfix
    ["new/1795220919.H782871P9155.vm"],  # exim
    ["tmp/1795220919.Vfd00I1e240M782871.vm"],
    ["new/1795220919.M1P1.vm", f"cur/1795220920443125.P5R0123456789abcdef.vm,c={'ab' * 16}.1795222800000000:2,P7"],
    ["new/1795220919.M1P1.vm", "new/1795220920443125.P5R0123456789abcdef.vm", ".spooltop/format"],
]  # fmt: skip
JOBS = [
    [".spooltop/format", "my-maildirfolder"],
    ["new/1795220920443386.9155.vm", "new/report.txt", "new/a:2,S"],
    ["cur/1795220920443125.9155.vm:2,P4242", "cur/x:P4242", "cur/y:2,", "cur/z:2,S1"],
    ["cur/1795318000.M1P1.vm:P5810"],
    ["cur/1795318000.M1P1.vm:P5810", "new/1795318001.M2P1.vm"],
    ["new/1795220920.9155.vm", "cur/1795220919.9154.vm:2,P4242"],
    ["new/1795220920.9155.vm", "cur/1795220919.9154.vm:P4242"],
    ["new/1795220920.9155.vm", "new/1795220920443125.P5R0123456789abcdef.vm"],
    ["new/1795220920.9155.vm", ".spooltop/format"],
    ["new/1795220919.M1P1.vm,n=0"],
    ["new/1795220920.42"],
]
DOUBTFUL = [
    ["new/1795220920.9155.vm"],  # qmail, and $(date +%s).$$.$(hostname)
    ["cur/1795220920.9155.vm"],
    ["new/1795220920.9155_3.vm"],  # procmail
    ["new/1795220920_0.9155.vm"],  # mutt
    [".Archive/tmp/", ".Archive/new/", ".Archive/cur/"],
]


def a_folder(path: Path, names: list[str]) -> str:
    make(path)
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).mkdir(exist_ok=True) if name.endswith("/") else (path / name).touch()
    return str(path)


@pytest.mark.parametrize("names", [*MAIL, *DOUBTFUL], ids=" ".join)
def test_mail_is_read_only_for_the_dashboard_and_refused_by_the_engine(tmp_path: Path, names: list[str]) -> None:
    path = a_folder(tmp_path / "s", names)
    target = identify(path)
    assert target.kind == "mail"
    assert target.read_only is not None
    assert ("cannot be told apart" in target.read_only) is (names in DOUBTFUL)
    with pytest.raises(MailFolder) as refused:
        Spool(path)
    assert refused.value.what in target.read_only
    assert identify(path, as_spool=True).kind == "spool"
    Spool(path, as_spool=True).close()


@pytest.mark.parametrize("names", JOBS, ids=" ".join)
def test_a_job_spool_is_one_for_the_dashboard_and_the_engine(tmp_path: Path, names: list[str]) -> None:
    path = a_folder(tmp_path / "s", names)
    assert identify(path) == IdentifiedPath("spool", path)
    Spool(path).close()


def test_a_mail_folder_with_many_folders_is_known_by_its_files(tmp_path: Path) -> None:
    make(tmp_path / "s")
    for number in range(400):
        (tmp_path / "s" / f".folder{number}").touch()
    (tmp_path / "s" / "dovecot-uidlist").touch()
    assert identify(str(tmp_path / "s")).kind == "mail"


def test_cursors_alone(real_spools: Path) -> None:
    folder = str(real_spools / "seed_cursors")
    assert identify(folder) == IdentifiedPath("cursors", folder)
    assert identify(folder + "/cursors.json") == IdentifiedPath("cursors", folder)


def test_one_cursor_file_a_source(tmp_path: Path) -> None:
    (tmp_path / "c" / "cursors").mkdir(parents=True)
    (tmp_path / "c" / "cursors" / "imessage.json").write_text("1")
    assert identify(str(tmp_path / "c")).kind == "cursors"


def test_tickets(real_spools: Path) -> None:
    path = str(real_spools / "stouputils_lockfifo" / "job.lock.queue")
    assert identify(path) == IdentifiedPath("tickets", path)


def test_a_typo_names_what_is_near(tmp_path: Path) -> None:
    make(tmp_path / "memex")
    assert f"did you mean {tmp_path}/memex?" in said(tmp_path / "memx")


def test_a_typo_in_the_middle_names_the_whole_path(tmp_path: Path) -> None:
    make(tmp_path / "spools" / "memex")
    assert f"did you mean {tmp_path}/spools/memex?" in said(tmp_path / "spool" / "memex")


def test_nothing_near_offers_to_make_one(tmp_path: Path) -> None:
    assert f"spooltop init {tmp_path}/q" in said(tmp_path / "q")


def test_an_empty_path() -> None:
    with pytest.raises(NotASpool):
        identify("")


def test_a_nul_byte() -> None:
    with pytest.raises(NotASpool, match="NUL"):
        identify("a\0b")


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert "a file" in said(tmp_path / "f")


def test_a_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert said(tmp_path / "f" / "new").startswith(f"{tmp_path}/f: a file")


def test_a_message_names_its_spool(real_spools: Path) -> None:
    spool = real_spools / "seed_atomicfilequeue"
    assert f"spooltop {spool} " in said(spool / "new" / "report.txt")


def test_a_box_names_its_spool(real_spools: Path) -> None:
    spool = real_spools / "seed_maildirqueue"
    text = said(spool / "cur")
    assert "only the box cur" in text
    assert text.endswith(f"spooltop {spool}")


def test_below_spooltop_names_its_spool(tmp_path: Path) -> None:
    make(tmp_path / "s")
    (tmp_path / "s" / ".spooltop" / "held").mkdir(parents=True)
    assert f"spooltop {tmp_path}/s" in said(tmp_path / "s" / ".spooltop")


def test_a_parent_of_spools_names_them(real_spools: Path) -> None:
    text = said(real_spools)
    assert f"{real_spools}/seed_maildirqueue" in text
    assert f"{real_spools}/seed_atomicfilequeue" in text


def test_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    assert said(tmp_path / "e").endswith(f"spooltop init {tmp_path}/e")


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
    for name in names:
        (tmp_path / "q" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "q" / name).mkdir(exist_ok=True) if name.endswith("/") else (tmp_path / "q" / name).touch()
    text = said(tmp_path / "q")
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


def test_lock_files_are_opened_or_pointed_at(tmp_path: Path, real_spools: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("a.lock", "b.lck", "b", ".hidden"):
        (tmp_path / "run" / name).touch()
    (tmp_path / "run" / "dir.lock").mkdir()
    assert identify(str(tmp_path / "run")).kind == "locks"
    assert identify(str(real_spools / "stouputils_lockfifo")).kind == "locks"
    assert f"spooltop locks {tmp_path}/run" in said(tmp_path / "run" / "a.lock")
    (tmp_path / "run" / "notes").touch()
    assert f"3 lock files inside; look at them: spooltop locks {tmp_path}/run" in said(tmp_path / "run")
    assert identify(str(tmp_path / "run"), otherwise="locks").kind == "locks"
    make(tmp_path / "s")
    assert identify(str(tmp_path / "s"), otherwise="locks").kind == "spool"
    with pytest.raises(NotASpool, match="only the box new of a spool"):
        identify(str(tmp_path / "s" / "new"), otherwise="locks")


def test_cursors_are_opened_by_each_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "x" / "cursors"
    folder.mkdir(parents=True)
    for source in ("imessage", "email"):
        (folder / f"{source}.json").write_text("89632")
    for path, sources in ((tmp_path / "x", 2), (folder, 2), (folder / "email.json", 1)):
        done = spooltop("cursors", path, "--json")
        assert [json.loads(line)["value"] for line in done.out.splitlines()] == [89632] * sources, done.err
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "state.json").write_text('{"imessage": 5}')
    (tmp_path / "y" / "cursors.json").symlink_to("state.json")
    for path in (tmp_path / "y", tmp_path / "y" / "cursors.json"):
        done = spooltop("cursors", path)
        assert done.code == 5 and f"spooltop cursors --cursor-file {tmp_path}/y/state.json\n" in done.err
    for words in (["--cursor-file", tmp_path / "y" / "state.json"], [tmp_path, "--cursor-file", tmp_path / "y" / "state.json"]):
        done = spooltop("cursors", *words, "--json")
        assert [json.loads(line)["value"] for line in done.out.splitlines()] == [5], done.err


@pytest.mark.parametrize("name", ["x/state.json", "cursors/notes.txt"])
def test_another_file_is_no_cursor_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir()
    file.write_text('{"imessage": 5}')
    done = spooltop("cursors", file)
    assert done.code == 5 and not done.out


def test_something_else_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "d" / "x").mkdir(parents=True)
    text = said(tmp_path / "d")
    assert "no tmp/, new/ or cur/ here" in text and "spooltop layouts lists them" in text
    assert spooltop("layouts").code == 0


def test_a_box_that_is_a_link_is_said_so(tmp_path: Path) -> None:
    make(tmp_path / "s", "tmp", "new")
    (tmp_path / "s" / "cur").symlink_to(tmp_path)
    assert "its cur is a symbolic link" in said(tmp_path / "s")


def test_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("nowhere")
    assert "link to nothing" in said(tmp_path / "l")


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("l")
    assert "circle" in said(tmp_path / "l")


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    assert "not a directory" in said(tmp_path / "p")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that any user can reach."""
    path = Path(tempfile.mkdtemp(prefix="spooltop-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def said_to_nobody(path: Path) -> str:
    """Returns the hint that a user without any rights here gets."""
    code = """if True:
        import difflib, shlex  # nobody may be refused the library of this interpreter
        import os, sys
        from spooltop.backends.directory.detect import identify
        from spooltop.backends.directory import hints
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        try:
            print(identify(sys.argv[1]))
        except Exception as error:
            print(type(error).__name__, error)
    """
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@needs("root")
@pytest.mark.parametrize("closed", [".", "s", "s/new"])
def test_no_permission_names_the_owner(shared_folder: Path, closed: str) -> None:
    inner = shared_folder / "deep"
    spool = make(inner / "s")
    for box in ("tmp", "new", "cur") if closed == "s/new" else (".",):
        (spool / box if closed == "s/new" else inner / closed).chmod(0o700)
    text = said_to_nobody(spool)
    assert text.startswith("Unreadable")
    assert f"sudo -u root spooltop {spool}" in text


@needs("root")
def test_one_closed_box_still_opens(shared_folder: Path) -> None:
    spool = make(shared_folder / "s")
    (spool / "cur").chmod(0o700)
    assert said_to_nobody(spool).startswith("IdentifiedPath(kind='spool'")


LAYOUTS = "spooltop layouts lists them"
UNPLANNED: dict[str, tuple[list[str], str, str]] = {
    "empty": ([], "an empty directory", "spooltop init {}"),
    "a repository": (["HEAD", "config", "objects/", "refs/heads/main"], "not a spool: no tmp/", LAYOUTS),
    "crontabs": (["alice", "root"], "not a spool: no tmp/", LAYOUTS),
    "a hot folder": (["scan-1.pdf", "scan-2.pdf", ".part"], "not a spool: no tmp/", LAYOUTS),
    "a hot folder with stages": (["in/a.mov", "work/", "done/b.mov", "failed/"], "not a spool: no tmp/", LAYOUTS),
    "two boxes": (["tmp/", "cur/"], "new missing, only tmp and cur there", LAYOUTS),
    "a root directory": (["bin/", "etc/", "tmp/", "var/"], "new and cur missing, only tmp there", LAYOUTS),
    "a source tree": (["queue/a.ts", "processing/a.ts", "jobs/send.ts", "workers/pool.ts"], "not a spool: no tmp/", LAYOUTS),
    "a source tree with results": (
        ["queue/index.ts", "processing/a.ts", "jobs/send.ts", "workers/pool.ts", "results/a.ts", "errors/a.ts"],
        "not a spool: no tmp/", LAYOUTS,
    ),
    "a source tree with a lock": (
        ["queue/queue.py", "results/view.py", "schedule/a.py", ".lock"], "not a spool; a lock file inside", "spooltop locks {}",
    ),
    "a drained huey": (["queue/", ".lock"], "perhaps a huey FileStorage, but nothing is in it", "--as 'huey FileStorage' {}"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNPLANNED)
def test_a_directory_that_nobody_planned_for_gets_the_hint_that_fits(tmp_path: Path, what: str) -> None:
    names, why, advice = UNPLANNED[what]
    path = tmp_path / "it"
    path.mkdir()
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).mkdir() if name.endswith("/") else (path / name).write_text("x")
    before = sorted(os.walk(path))
    for command in ("status", "ls", "requeue"):
        done = spooltop(command, path, *(["ALL", "--yes"] if command == "requeue" else []))
        assert done.code == 5 and sorted(os.walk(path)) == before
        assert done.err.startswith(f"spooltop: {path}: {why}") and advice.format(path) in done.err, done.err
        assert ("init" in done.err) is (what == "empty")


def test_proc_gets_no_advice_to_make_a_spool_in_it() -> None:
    done = spooltop("status", "/proc")
    assert done.code == 5 and "init" not in done.err and LAYOUTS in done.err


@pytest.mark.parametrize(
    "names",
    [
        ["queue/ffff-01a1fb81560d", ".lock"],
        ["queue/", "schedule/01a1fb8448d", ".lock"],
        ["queue/", "results/c/4/c4ca4238a0b923820dcc509a6f75849b", ".lock"],
        ["queue/", "counters/4a8a08f09d37b73795649038408b5f33", ".lock"],
    ],
)
def test_a_huey_shows_itself_by_what_it_wrote(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).mkdir(exist_ok=True) if name.endswith("/") else (tmp_path / name).write_text("")
    assert spooltop("status", tmp_path).code == 0


def test_a_drained_job_queue_is_one(tmp_path: Path) -> None:
    for name in ("queue", "processing", "jobs", "results", "errors", "workers", "notify"):
        (tmp_path / name).mkdir()
    assert spooltop("status", tmp_path).code == 0
