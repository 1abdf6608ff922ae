"""The command line on real spools: reports, lists, changes, and names that somebody chose to do harm."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.cli.parser import COMMANDS
from spooltop.engine import Spool

from .streams import finish, spooltop, start

HOSTILE = [
    b"[red]x[]",
    b"\x1b]0;owned\x07",
    b"two\nlines",
    b"not-utf8-\xff\xfe",
    b"2026-11-21T02:41:09.json",
    "\u202edesrever".encode(),
    b"back\\slash",
    b"-rf",
    b"ALL",
    b"{brace",
    b" blanks ",
    b"x" * 240,
]


@pytest.fixture
def spool(real_spools: Path) -> Path:
    return real_spools / "seed_maildirqueue"


def everything(path: Path) -> list[str]:
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


def listed(*words: str | Path) -> list[dict[str, object]]:
    done = spooltop("ls", *words, "--json")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_status_json_has_what_is_promised(spool: Path) -> None:
    before = everything(spool)
    done = spooltop("status", spool, "--json")
    thing = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert thing["schema"] == 1
    assert thing["spool"] == str(spool)
    assert thing["host"] == os.uname().nodename
    assert thing["complete"] is True
    assert isinstance(thing["taken_at"], float)
    assert set(thing["boxes"]) == {"tmp", "new", "cur", "held", "rejected", "trash"}
    for box in thing["boxes"].values():
        assert {"count", "bytes", "oldest_age"} <= set(box)
    assert [thing["boxes"][box]["count"] for box in ("tmp", "new", "cur")] == [1, 3, 1]
    assert set(thing["claims"]) == {"alive", "dead", "unknown"}
    assert sum(thing["claims"].values()) == 1
    assert {"in", "done", "window"} <= set(thing["rates"])
    assert thing["rates"]["in"] is None  # one look measures no rate, and that is not 0
    assert {"bytes_free", "inodes_free"} <= set(thing["disk"])
    assert isinstance(thing["locks"], list)
    for problem in thing["problems"]:
        assert {"severity", "code", "text", "count", "selection"} <= set(problem)
    assert everything(spool) == before


def test_status_of_cursors(real_spools: Path) -> None:
    cursors = json.loads(spooltop("status", real_spools / "seed_cursors", "--json").out)["cursors"]
    assert set(cursors) == {"imessage", "signal"}
    for cursor in cursors.values():
        assert {"value", "verdict", "evidence", "file"} <= set(cursor)
    assert cursors["imessage"]["value"] == {"cursor": 89636}


def test_status_of_a_lock_that_is_held(spool: Path) -> None:
    lock = spool / "job.lock"
    lock.touch()
    code = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        [found] = json.loads(spooltop("status", spool, "--json").out)["locks"]
        holder.communicate(b"")
    assert {"path", "kind", "holders", "waiters", "verdict"} <= set(found)
    assert found["path"].endswith("job.lock")
    assert [one["pid"] for one in found["holders"]] == [holder.pid]
    assert set(found["holders"][0]) == {"pid", "command", "user", "since"}


def test_without_a_terminal_the_path_alone_gives_the_report(spool: Path) -> None:
    done = spooltop(spool)
    assert done.code == 0
    assert done.out.startswith(f"spooltop {spool}\n")
    assert "\x1b" not in done.out


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_poor_terminal_gets_the_report(spool: Path, term: str) -> None:
    assert spooltop(spool, tty=True, environ={"TERM": term}).out.startswith(f"spooltop {spool}\n")


def test_a_terminal_gets_the_dashboard(spool: Path) -> None:
    done = spooltop(spool, tty=True)
    assert (done.code, done.out) == (42, "dashboard\n")


def test_problems_come_before_the_boxes(spool: Path) -> None:
    out = spooltop("status", spool).out
    assert out.index("PROBLEM") < out.index("box ")


def test_ascii_is_ascii(spool: Path) -> None:
    assert spooltop("status", spool, "--ascii").out.isascii()


def test_a_mail_folder_says_why_it_is_read_only(real_spools: Path) -> None:
    path = real_spools / "maildir_stdlib"
    assert f"spooltop --as spool {path}" in spooltop("status", path).out
    done = spooltop("requeue", path, "ALL", "--yes")
    assert (done.code, done.out) == (3, "")


def test_ls_has_what_is_promised(spool: Path) -> None:
    lines = listed(spool)
    assert [line["box"] for line in lines] == ["tmp", "new", "new", "new", "cur"]
    for line in lines:
        assert line["schema"] == 1
        assert {"id", "name", "box", "age", "in_box_age", "size", "source", "attempt", "verdict"} <= set(line)
    claim = lines[-1]
    assert claim["id"] == "1795220920443125.9155.vm"
    assert claim["name"] == "1795220920443125.9155.vm:2,P4242"
    assert isinstance(claim["owner"], dict)
    assert {"host", "pid", "start", "command"} <= set(claim["owner"])
    assert claim["owner"]["pid"] == 4242
    assert claim["evidence"]


def test_ls_of_nothing_is_0_and_of_nothing_that_matches_4(spool: Path) -> None:
    assert spooltop("ls", spool, "--box", "held").code == 0
    done = spooltop("ls", spool, "--filter", "no-such-text", "--json")
    assert (done.code, done.out) == (4, "")
    assert spooltop("ls", spool, "no-such-id").code == 4


def test_ls_can_be_cut_sorted_and_inverted(spool: Path) -> None:
    names = [line["id"] for line in listed(spool, "--box", "new")]
    assert names == sorted(map(str, names))
    assert [line["id"] for line in listed(spool, "--box", "new", "--invert")] == names[::-1]
    assert [line["id"] for line in listed(spool, "--box", "new", "-n", "2")] == names[:2]


def test_show_tells_a_message_and_its_payload(real_spools: Path) -> None:
    spool = real_spools / "seed_atomicfilequeue"
    (spool / "new" / "report.txt").write_bytes(b"a\x1b[2Jb\nc")
    done = spooltop("show", spool, "report.txt")
    assert done.code == 0
    assert done.out.endswith("\na\\x1b[2Jb\nc\n")
    thing = json.loads(spooltop("show", spool, "report.txt", "--json").out)
    assert (thing["id"], thing["box"], thing["payload"]) == ("report.txt", "new", "a\\x1b[2Jb\nc")
    assert spooltop("show", spool, "report.txx").code == 4


def test_show_raw_gives_every_byte_but_not_to_a_terminal(real_spools: Path) -> None:
    spool = real_spools / "seed_atomicfilequeue"
    payload = os.urandom(200_000)
    (spool / "new" / "report.txt").write_bytes(payload)
    with start("show", spool, "report.txt", "--raw") as process:
        out, _ = process.communicate()
    assert (process.returncode, out) == (0, payload)
    done = spooltop("show", spool, "report.txt", "--raw", tty=True)
    assert (done.code, done.out) == (3, "")


def test_a_claim_goes_back_under_its_very_name_and_the_undo_brings_it_back(spool: Path) -> None:
    assert spooltop("requeue", spool, "1795220920443125.9155.vm", "--yes", "--force").code == 0
    assert "new/1795220920443125.9155.vm" in everything(spool)
    record = json.loads(spooltop("ops", spool, "--json").out)
    assert (record["schema"], record["action"], record["done"]) == (1, "requeue", 1)
    assert record["operation"] in spooltop("ops", spool).out
    assert spooltop("undo", spool, record["operation"], "--yes").code == 0
    assert "cur/1795220920443125.9155.vm:2,P4242" in everything(spool)


def test_of_very_many_operations_the_newest_are_listed_and_how_to_list_all_is_said(spool: Path) -> None:
    assert spooltop("hold", spool, "--box", "new", "ALL", "--yes").code == 0
    [one] = [json.loads(line) for line in spooltop("ops", spool, "--json").out.splitlines()]
    journal = spool / ".spooltop" / "journal.jsonl"
    written = journal.read_text()
    journal.write_text("".join(written.replace(one["operation"], f"op{number:04}") for number in range(1002)))
    listed = spooltop("ops", spool, "--json")
    assert listed.code == 0 and "only the newest 1,000 operations are listed; --all lists all" in listed.err
    assert [json.loads(line)["operation"] for line in listed.out.splitlines()] == [f"op{n:04}" for n in range(1001, 1, -1)]
    for json_or_not in ([], ["--json"]):
        whole = spooltop("ops", spool, "--all", *json_or_not)
        assert (whole.code, whole.err) == (0, "") and whole.out.count("op") >= 1002
    assert "op0000" in spooltop("ops", spool, "op0000").out


def test_purge_by_box_leaves_alone_what_is_young(spool: Path) -> None:
    for path in (spool / "tmp").iterdir():
        os.utime(path)
    (spool / "tmp" / "young").write_text("x")
    assert spooltop("purge", spool, "--box", "tmp", "--filter", "young", "--yes").code == 4
    assert (spool / "tmp" / "young").exists()
    done = spooltop("purge", spool, "--box", "tmp", "ALL", "--yes", "--force")
    assert done.code == 0
    assert list((spool / "tmp").iterdir()) == []


def test_inject_names_what_it_put(spool: Path) -> None:
    done = spooltop("inject", spool, "--count", "2", "--canary", "--timeout", "0", "--yes")
    assert done.code == 0
    ids = {str(line["id"]) for line in listed(spool, "--box", "new") if line["canary"]}
    assert len(ids) == 2
    assert ids <= set(done.out.splitlines())


def test_a_canary_is_followed_until_it_is_gone(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", durable=False) as spool:
        worker = start("work", spool.path, "--", "true")
        try:
            done = spooltop("inject", spool.path, "--canary", "--timeout", "60", "--yes")
            counted = spooltop("inject", spool.path, "--canary", "--count", "2", "--timeout", "60", "--yes", "--json")
        finally:
            worker.kill()
            worker.communicate()
    assert (done.code, done.err) == (0, "")
    [id] = [line for line in done.out.splitlines() if ".P" in line and "  " not in line.strip()]
    steps = [line.removeprefix(f"{id.strip()}  ") for line in done.out.splitlines() if line.startswith(f"{id.strip()}  ")]
    assert [step.partition(" after ")[0] for step in steps if not step.startswith("new")] == [
        f"cur, claimed by {worker.pid}", "gone",
    ]  # fmt: skip
    assert done.out.splitlines()[-1].startswith("1 of 1 went through, after ")
    trace = json.loads(counted.out)["trace"]
    assert [one["pid"] for one in trace] == [worker.pid] * 2
    assert all(one["put_at"] <= one["claimed_at"] <= one["gone_at"] for one in trace)


def test_a_canary_that_nobody_takes_is_told_and_counts_as_trouble(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", durable=False) as spool:
        done = spooltop("inject", spool.path, "--canary", "--timeout", "0.2", "--yes")
    assert done.code == 1
    assert done.err == "spooltop: inject: 0 of 1 went through; after 0.2s 1 in new, not claimed\n"


@pytest.mark.parametrize("tail", [b"", b":2,P4242"])
def test_hostile_names_go_from_ls_to_requeue_and_none_changes(tmp_path: Path, tail: bytes) -> None:
    spool = tmp_path / "s"
    for box in ("tmp", "new", "cur"):
        (spool / box).mkdir(parents=True)
    box, command = ("cur", ["requeue", "--force"]) if tail else ("new", ["purge"])
    for name in HOSTILE:
        Path(os.fsdecode(os.path.join(os.fsencode(spool / box), name + tail))).touch()
    listing = finish(["ls", spool, "--box", box, "--json"])
    assert listing.code == 0
    assert "\x1b" not in listing.out
    assert len(listing.out.splitlines()) == len(HOSTILE)
    done = finish([command[0], spool, "-", "--yes", *command[1:]], stdin=listing.out.encode())
    assert done.code == 0, done.out + done.err
    assert "\x1b" not in done.out
    assert os.listdir(spool / box) == []
    if tail:
        there = os.listdir(os.fsencode(spool / "new"))
    else:
        trash = os.fsencode(spool / ".spooltop" / "trash")
        there = [name for _, _, names in os.walk(trash) for name in names if not name.endswith(b".meta")]
    assert sorted(there) == sorted(HOSTILE)


def test_ids_one_by_one_as_words(tmp_path: Path) -> None:
    assert finish(["init", tmp_path / "s"]).code == 0
    for name in HOSTILE:
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path / "s" / "new"), name))).write_bytes(name)
    for line in listed(tmp_path / "s", "--box", "new"):
        word = str(line["id"]).replace("-", r"\x2d", 1) if str(line["id"]).startswith("-") else str(line["id"])
        done = spooltop("show", tmp_path / "s", word, "--json")
        assert done.code == 0, (word, done.err)
        assert json.loads(done.out)["payload_size"] == line["size"]


def test_init_put_and_put_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert spooltop("init", path).code == 0
    assert sorted(os.listdir(path)) == ["cur", "new", "tmp"]
    again = spooltop("init", path)
    assert (again.code, "already" in again.out) == (0, True)
    done = spooltop("put", path, "--source", "imessage", "--id", r"o\x0arder", stdin=b"payload")
    assert (done.code, done.out) == (0, "o\\x0arder\n")
    assert spooltop("put", path, "--id", r"o\x0arder", stdin=b"payload").code == 0
    [line] = listed(path)
    assert (line["id"], line["source"], line["size"]) == ("o\\x0arder", "imessage", 7)


@pytest.mark.parametrize("words", [("--id", "order-17"), ("--key", "order 17"), ()])
def test_put_tells_whether_the_message_was_there_already(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "s"
    spooltop("init", path)
    records = [json.loads(spooltop("put", path, *words, "--json", "--no-durable", stdin=b"x").out) for _ in range(2)]
    assert [one["duplicate"] for one in records] == [False, bool(words)]
    assert (records[0]["id"] == records[1]["id"]) is bool(words)
    assert len(listed(path)) == (1 if words else 2)


@pytest.mark.parametrize("command", ["ls", "purge"])
def test_an_unknown_key_of_the_filter_is_refused_with_those_that_exist(spool: Path, command: str) -> None:
    more = ["--box", "new", "--dry-run"] if command == "purge" else []
    done = spooltop(command, spool, *more, "--filter", "owner:ann")
    assert done.err == (
        "spooltop: unknown key owner:; keys are age: src: id: pid: holder: tries: verdict: error:, "
        'or "owner:ann" in quotes as text\n'
    )
    assert done.code == 2
    quiet = spooltop(command, spool, *more, "--filter", '"owner:ann"')
    assert "unknown key" not in quiet.err and quiet.code == 4


def test_put_of_files_names_the_one_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "s"
    spooltop("init", path)
    (tmp_path / "f").write_text("f")
    done = spooltop("put", path, tmp_path / "f", tmp_path / "missing", "--json", "--no-durable")
    assert done.code == 1
    assert str(tmp_path / "missing") in done.err
    assert [json.loads(line)["schema"] for line in done.out.splitlines()] == [1]
    assert len(os.listdir(path / "new")) == 1


def test_init_makes_the_box_that_is_missing(spool: Path) -> None:
    for path in (spool / "tmp").iterdir():
        path.unlink()
    (spool / "tmp").rmdir()
    assert "tmp" in spooltop("init", spool).out
    assert (spool / "tmp").is_dir()


@pytest.mark.parametrize(
    "name", ["dirq_simple", "maildir_stdlib", "seed_cursors", "seed_maildirqueue/new/1795220920443386.9155.vm"]
)
def test_init_refuses_what_is_something_else(real_spools: Path, name: str) -> None:
    before = everything(real_spools)
    done = spooltop("init", real_spools / name)
    assert (done.code, done.out) == (3, "")
    assert everything(real_spools) == before


def test_read_only_refuses_every_change(spool: Path) -> None:
    before = everything(spool)
    for words in (
        ["requeue", spool, "ALL"],
        ["purge", spool, "--box", "tmp"],
        ["inject", spool],
        ["put", spool],
        ["init", spool],
    ):
        extra = ["--yes"] if words[0] not in ("put", "init") else []
        assert spooltop(*words, *extra, "--read-only").code == 3
    assert everything(spool) == before


def test_a_question_on_a_real_terminal(spool: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        with start("requeue", spool, "--box", "cur", "ALL", "--force", stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            theirs = -1
            seen = b""
            while b"anything else cancels: " not in seen:
                seen += os.read(ours, 4096)
            assert everything(spool).count("cur/1795220920443125.9155.vm:2,P4242") == 1
            typed = b"1\n" if b"Type the number" in seen else b"y\n"
            os.write(ours, typed)
            assert process.wait() == 0
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    assert os.listdir(spool / "cur") == []


def test_a_reader_that_has_seen_enough_is_no_error(spool: Path) -> None:
    for number in range(3000):
        (spool / "new" / f"{number:020}").touch()
    with start("ls", spool, "--json") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_every_command_can_be_called(tmp_path: Path) -> None:
    for name in COMMANDS.keys() - {"completion", "config", "help", "layouts", "version"}:
        words = {"work": ["--", "true"], "show": ["id"], "requeue": ["id"], "purge": ["id"], "undo": ["op"], "move": ["x"]}
        words |= {change: ["id"] for change in ("hold", "release", "restore", "unlock")}
        before = ["--headless", "0", "--dir"] if name == "demo" else []
        done = spooltop(name, *before, tmp_path / "missing" / "spool", *words.get(name, []))
        assert done.code == (3 if name == "check" else 5), (name, done.err)


def test_an_age_that_is_a_bound_says_so(real_spools: Path) -> None:
    spool = real_spools / "seed_maildirqueue"
    (spool / "cur" / "1795220920443125.9155.vm:2,P4242").touch()
    for words in (["status", spool], ["ls", spool], ["requeue", spool, "--force", "ALL", "--dry-run"]):
        assert "<" not in spooltop(*words).out
    assert re.search(r"≤\ds", spooltop("ls", spool, "--box", "cur").out)
    moved = [line.split()[2] for line in spooltop("cursors", real_spools / "seed_cursors").out.splitlines()[1:]]
    assert moved and all(one.startswith("≥") for one in moved)


def test_one_problem_stands_alone(tmp_path: Path) -> None:
    assert spooltop("init", tmp_path / "s").code == 0
    (tmp_path / "s" / "cur" / "nobody").touch()
    assert "\n1 PROBLEM\n" in spooltop("status", tmp_path / "s").out


def test_status_says_why_a_mail_folder_is_read_only(tmp_path: Path) -> None:
    for box in ("tmp", "new", "cur"):
        (tmp_path / "m" / box).mkdir(parents=True)
    (tmp_path / "m" / "cur" / "1795220920.M1P2.vm:2,S").touch()
    said = spooltop("status", tmp_path / "m").out
    for words in ("READ-ONLY", "mail folder", "cur has :2,S flags", "not stuck work", f"spooltop --as spool {tmp_path / 'm'}"):
        assert words in said


def test_a_problem_in_json_names_its_messages(tmp_path: Path) -> None:
    assert spooltop("init", tmp_path / "s").code == 0
    os.mkfifo(tmp_path / "s" / "new" / "fi\x1bfo")
    (problem,) = json.loads(spooltop("status", tmp_path / "s", "--json").out)["problems"]
    assert (problem["code"], problem["selection"]) == ("conflict", {"box": "new", "ids": ["fi\\x1bfo"]})


_NUMBER = (int, float)
_MAYBE = (int, float, type(None))
_TYPES: dict[str, object] = {
    "schema": int, "id": str, "name": str, "box": str, "enqueued_at": _NUMBER, "in_box_since": _NUMBER, "age": _NUMBER,
    "in_box_age": _NUMBER, "size": int, "source": (str, type(None)), "attempt": (int, type(None)),
    "verdict": (str, type(None)), "evidence": str, "complete": bool,
}  # fmt: skip


def test_every_member_that_scripts_rely_on_has_its_type(real_spools: Path) -> None:
    spool = real_spools / "seed_maildirqueue"
    for line in listed(spool):
        assert {name for name, kind in _TYPES.items() if not isinstance(line[name], kind)} == set()  # type: ignore[arg-type]
        if line["box"] == "cur":
            assert isinstance(line["owner"], dict) and {"host", "pid", "start", "command"} <= set(line["owner"])
    status = json.loads(spooltop("status", spool, "--json").out)
    assert isinstance(status["schema"], int) and isinstance(status["spool"], str) and isinstance(status["complete"], bool)
    assert isinstance(status["taken_at"], float)
    assert set(status["boxes"]) == {"tmp", "new", "cur", "held", "rejected", "trash"}
    for box in status["boxes"].values():
        assert isinstance(box["count"], int) and isinstance(box["bytes"], _MAYBE) and isinstance(box["oldest_age"], _MAYBE)
    assert all(isinstance(status["claims"][verdict], int) for verdict in ("alive", "dead", "unknown"))
    assert {"in", "done", "window"} <= set(status["rates"]) and {"bytes_free", "inodes_free"} <= set(status["disk"])
    for problem in status["problems"]:
        assert all(isinstance(problem[name], str) for name in ("severity", "code", "text")) and isinstance(problem["count"], int)
        assert "selection" in problem


def test_tickets_are_listed_in_their_order(real_spools: Path) -> None:
    queue = real_spools / "stouputils_lockfifo" / "job.lock.queue"
    for name in os.listdir(queue):
        if name != "seq":
            (queue / name).unlink()
    gone = 4194303
    for ticket, pid in ((1, gone), (2, os.getpid())):
        (queue / f"{ticket:020d}.{pid}.{ticket:032x}").touch()
    lines = spooltop("tickets", queue).out.splitlines()
    assert lines[0].startswith(f"{queue}: STALE, pid {gone} has exited") or lines[0].startswith(f"{queue}: unknown, pid {gone}")
    assert [line.split()[:4:3] for line in lines[2:]] == [["owner", "exited"], ["1", "running"]]
    (line,) = [json.loads(one) for one in spooltop("tickets", queue, "--json").out.splitlines()]
    assert (line["kind"], [one["pid"] for one in (*line["holders"], *line["waiters"])]) == ("ticket", [gone, os.getpid()])


def test_a_queue_beside_a_spool_is_found_and_its_orphan_is_told(tmp_path: Path) -> None:
    assert spooltop("init", tmp_path / "s").code == 0
    queue = tmp_path / "s" / "job.queue"
    queue.mkdir()
    (queue / "seq").write_text("1")
    assert spooltop("tickets", tmp_path / "s").out == f"{queue}: free, nobody has a ticket\n"
    (queue / f"{1:020d}.4194303.{1:032x}").touch()
    status = json.loads(spooltop("status", tmp_path / "s", "--json").out)
    assert [lock["kind"] for lock in status["locks"]] == ["ticket"]
    if status["locks"][0]["verdict"] == "stale":  # only from the first pid namespace
        assert [problem["code"] for problem in status["problems"]] == ["ticket-orphan"]


def test_what_is_held_purged_or_deleted_and_back(tmp_path: Path) -> None:
    spool = tmp_path / "s"
    assert spooltop("init", spool).code == 0
    ids = [spooltop("put", spool, "--source", source, stdin=source.encode()).out.strip() for source in ("a", "b", "c")]

    def boxes() -> dict[str, int]:
        states = json.loads(spooltop("status", spool, "--json").out)["boxes"]
        return {box: states[box]["count"] for box in ("new", "held", "trash")}

    assert spooltop("hold", spool, "--source", "a", "--dry-run").code == 0
    assert boxes() == {"new": 3, "held": 0, "trash": 0}
    held = json.loads(spooltop("hold", spool, "--source", "a", "--yes", "--json").out)
    assert (held["action"], held["done"], held["undo"][1]) == ("hold", 1, "undo")
    assert spooltop("purge", spool, ids[1], "--yes").code == 0
    assert boxes() == {"new": 1, "held": 1, "trash": 1}
    assert spooltop("release", spool, "ALL", "--rate", "50/s", "--yes").code == 0
    assert spooltop("restore", spool, "--box", "trash", "ALL", "--yes").code == 0
    assert boxes() == {"new": 3, "held": 0, "trash": 0}
    assert spooltop("purge", spool, ids[0], "--yes").code == 0
    young = spooltop("purge", spool, "--box", "trash", "--yes")
    assert young.code == 4
    assert "for 1h" in young.err
    listed = spooltop("ls", spool, "--box", "trash", "--json")
    emptied = spooltop("purge", spool, "-", "--yes", stdin=listed.out.encode())
    assert emptied.code == 0
    assert "This cannot be undone" in emptied.out
    assert "emptied 1" in emptied.out
    assert "undo it" not in emptied.out
    now = spooltop("purge", spool, ids[1], "--now", "--yes")
    assert now.code == 0
    assert "This cannot be undone" in now.out
    assert boxes() == {"new": 1, "held": 0, "trash": 0}
    ops = [json.loads(line) for line in spooltop("ops", spool, "--json").out.splitlines()]
    assert [one["action"] for one in ops] == ["purge", "empty", "purge", "restore", "release", "purge", "hold"]
    assert spooltop("undo", spool, ops[1]["operation"], "--yes").code == 4


def test_emptying_wants_the_number_however_few_they_are(tmp_path: Path) -> None:
    spool = tmp_path / "s"
    spooltop("init", spool)
    id = spooltop("put", spool, stdin=b"x").out.strip()
    spooltop("purge", spool, id, "--yes")
    for typed, code in (("y", 3), ("Y", 3), ("2", 3), ("1", 0)):
        done = spooltop("purge", spool, "--box", "trash", "ALL", stdin=f"{typed}\n".encode(), tty=True)
        assert done.code == code, (typed, done)


@pytest.mark.parametrize("words", [("hold", "--box", "tmp", "x"), ("release", "--box", "trash", "x"), ("restore", "ALL"),
                                   ("restore", "--box", "new", "x"), ("release",), ("hold",),
                                   ("release", "ALL", "--rate", "0"), ("release", "ALL", "--rate", "5/day"),
                                   ("release", "ALL", "--rate", "nan")])  # fmt: skip
def test_what_makes_no_sense_is_said_before_anything_is_opened(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = spooltop(words[0], tmp_path / "missing", *words[1:], "--yes")
    assert done.code == 2
    assert done.err.startswith("spooltop: ")
    assert done.err.count("\n") == 1


def test_what_names_no_holder_in_cur_is_shown_and_taken_by_force_only(tmp_path: Path) -> None:
    """An inbox of agents (AMQ): cur is what was read, and a requeue would hand old instructions out again."""
    for box, name in (("tmp", ""), ("new", ""), ("cur", "2026-07-01T10-02-03.123Z_pid4312_ab12.md"), ("cur", "b.md")):
        (tmp_path / box).mkdir(exist_ok=True)
        if name:
            (tmp_path / box / name).write_text("do this")
    lines = [json.loads(line) for line in spooltop("ls", tmp_path, "--box", "cur", "--json").out.splitlines()]
    words = "not a claim that spooltop knows: no holder in its name"
    assert [(line["verdict"], line["evidence"]) for line in lines] == [(None, words)] * 2
    assert f"verdict   none: {words}" in spooltop("show", tmp_path, "b.md").out
    status = json.loads(spooltop("status", tmp_path, "--json").out)
    assert status["boxes"]["cur"]["count"] == 2 and set(status["claims"].values()) == {0}
    assert [(one["severity"], one["code"], one["text"]) for one in status["problems"]] == [
        ("note", "claims-unknown", "2 in cur are not claims that spooltop knows: no holder in their names")
    ]
    for command in ("requeue", "hold", "purge"):
        done = spooltop(command, tmp_path, "--box", "cur", "ALL", "--yes")
        assert done.code == 3 and words in done.out, done
    assert len(os.listdir(tmp_path / "cur")) == 2
    assert spooltop("requeue", tmp_path, "b.md", "--yes", "--force").code == 0
    assert os.listdir(tmp_path / "new") == ["b.md"]
