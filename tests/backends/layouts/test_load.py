"""Layout files, each mistake with its line, and the name of a layout: kept beside a queue, or given by the settings."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spooltop import open_queue
from spooltop.backends.layouts.definition import Template, time_of
from spooltop.backends.layouts.load import SHIPPED, folders, layout_files, parse_layout, read_layout
from spooltop.control import open_control
from spooltop.errors import SpooltopError, UsageError
from spooltop.model.vocabulary import Action, Box
from spooltop.settings import load
from tests.builders import LayoutWorld, nq
from tests.cli.streams import Done, spooltop
from tests.matrix.scenes import BY_LAYOUT
from tests.needs import needs

BASE = """\
name = "mine"
detect = ["queue/"]
[[match]]
box = "new"
path = "queue/{id}"
"""
HOLD = BASE + '[[action]]\nname = "hold"\nfrom = "new"\n'


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("name = ", 1, "not valid TOML: Invalid value"),
        ('detect = ["a"]', 1, "name is missing"),
        ('name = "x"', 1, "detect needs at least one name that must be there, or needs_any a path"),
        ('name = "x"\ndetect = ["a/"]', 1, "there is no [[match]]: nothing would be a message"),
        ('name = "x"\ndetect = "a/"', 2, "detect must be a list"),
        ('name = "x"\ndetect = [1]', 2, "detect must be a list of texts"),
        (BASE + 'boxx = "new"', 6, "unknown key boxx; did you mean box?"),
        (BASE.replace('"new"', '"neww"'), 4, "box = 'neww': there are tmp, new, cur, held, rejected, delivered"),
        (BASE.replace("{id}", "{id:regex}"), 5, "path = 'queue/{id:regex}': {id:regex}: unknown type 'regex'; there are int,"),
        (BASE.replace("queue/{id}", "../{id}"), 5, "path = '../{id}': it has an empty part, . or .."),
        (BASE.replace("queue/", "/etc/"), 2, "detect = '/etc/': it must lie below the directory: it begins with /"),
        (BASE.replace("{id}", "{id"), 5, "path = 'queue/{id': '{' opens or closes no piece: write {name} or {name:type}"),
        (BASE.replace("{id}", "{id}-{id}"), 5, "path = 'queue/{id}-{id}': {id} stands twice"),
        (BASE.replace("{id}", "{Id}"), 5, "path = 'queue/{Id}': {Id}: a name is small letters, digits and _"),
        (BASE.replace("{id}", "{a}{id}"), 5, "path = 'queue/{a}{id}': {a} stands beside another piece: put a character"),
        (BASE + 'when = "exists:../x"', 6, "when = '../x': it must lie below the directory"),
        (BASE + 'when = "size:3"', 6, "when = 'size:3': write exists:PATH, flock:PATH, tail:TEXT or mode:x"),
        (BASE.replace('"mine"', '"mine"\nclaim_long = "soon"'), 2, "claim_long = 'soon': "),
        (BASE + 'order = "seq"', 6, "order = 'seq': there are name, id"),
        (BASE + 'metadata = { since = "atime" }', 6, "since = 'atime': write mtime, ctime, json:, file:, tail:, record:, name:"),
        (BASE + 'metadata = { since = "id" }', 6, "since: the type of {id} is no time"),
        (BASE + 'metadata = { age = "mtime" }', 6, "unknown key age; there are enqueued_at, since,"),
        (BASE + 'metadata = { since = "json:a:weeks" }', 6, "since = 'weeks': there are sec, ms, us, hexsec, hexms, "),
        (BASE + 'verdict = { pid = "owner" }', 6, "pid = 'owner': there are id"),
        (BASE + 'verdict = { proves = "all" }', 6, "proves = 'all': there are nothing"),
        (BASE + 'verdict = { lease = "w/{id}" }', 6, "lease = 'w/{id}': write PATH:UNIT"),
        (BASE + 'verdict = { lease = "w/{id}:" }', 6, "lease = 'w/{id}:': write PATH:UNIT"),
        (BASE + 'verdict = { lease = "w/{id}:ms", else = "watched" }', 1, 'a verdict has else = "watched", but watched names no'),
        (HOLD.replace("hold", "eat") + 'steps = ["unlink {path}"]', 7, "name = 'eat': there are requeue, purge, hold"),
        (BASE + '[[action]]\nname = "hold"\nfrom = "cur"\nsteps = ["held {path}"]', 8, "no [[match]] puts a message into cur"),
        (HOLD + 'steps = ["eat {path}"]', 9, "steps = 'eat': there are rename, link,"),
        (HOLD + 'steps = ["rename {path}"]', 9, "'rename {path}': rename takes 2 words"),
        (HOLD + 'steps = ["write state/{id} queued at"]', 9, "'write state/{id} queued at': write takes 2 words"),
        (HOLD + 'steps = ["unlink {seq}"]', 9, "steps = '{seq}': {seq}: no such piece"),
        (HOLD + 'steps = ["unlink {id:upper}"]', 9, "steps = '{id:upper}': {id:upper}: after the name only next or"),
        (HOLD + 'steps = ["write a {now:days}"]', 9, "steps = '{now:days}': {now:days}: the time is written as sec, ms, us"),
        (HOLD + 'steps = ["unlink {id"]', 9, "steps = '{id': '{' opens or closes no piece"),
        (HOLD, 6, "an action needs steps"),
        (BASE + '[[problem]]\ncode = "conflict"\nwhen = "same:seq"\ntext = "x"', 8, "when = 'seq': there are id"),
        (BASE + '[[problem]]\ncode = "conflict"\nwhen = "alone:{id}.lck"\ntext = "x"', 8, "when = 'alone:{id}.lck': write"),
        (BASE + '[[cross_check]]\npath = "jobs/{id}"\nsays = ["{at:ms}"]\nmissing = "x"', 8, "says lists the texts of the file"),
        (BASE + '[[cross_check]]\npath = "jobs/{id}"\nsays = []\nmissing = "x"', 8, "says lists the texts of the file"),
        (BASE + '[locks."../x"]\nkind = "lease"', 6, "../x = '../x': it must lie below the directory"),
        (BASE.replace('"mine"', '"mine"\nside_dir = "/var"'), 2, "side_dir = '/var': a name in the directory"),
        (BASE.replace('"mine"', '"mine"\nlock = ".lock"'), 2, "lock is written flock:PATH"),
        (BASE.replace('"mine"', '"mine"\nlock = "flock:../.lock"'), 2, "lock = '../.lock': it has an empty part, . or .."),
        (BASE.replace('"mine"', '"mine"\nwatched = "{id}"'), 2, "watched = '{id}': one file, without pieces and *"),
        (BASE.replace('"mine"', '"mi\\u001bne"'), 1, "name has characters that are not printable"),
        (BASE + 'verdict = { pidfile = "../../run/x.pid" }', 6, "pidfile = '../../run/x.pid': it has an empty part"),
        (BASE + 'verdict = { pid = "id" }', 6, "pid: {id} is no number: give it the type int"),
        (BASE.replace("{id}", "{pid}"), 5, "path: the piece called pid is that of a process: {pid:int}"),
        (BASE.replace("{id}", "a/b/c/d/e/f/g/{id}"), 5, "path = 'queue/a/b/c/d/e/f/g/{id}': it has 9 parts; a queue is read 8"),
        (BASE + 64 * '[[match]]\nbox = "new"\npath = "{id}"\n', 3, "match has 65 entries; there may be 64"),
        (BASE + "[commands]\nhold = \"x '{id}'\"", 7, "hold = \"x '{id}'\": a command with {id} for the message, no other"),
        (BASE + '[commands]\nkill = "x {id}"', 7, "kill = 'kill': there are requeue, purge, hold, release"),
        (BASE + '[commands]\npurge = "postsuper -d"', 7, "purge = 'postsuper -d': a command with {id} for the message"),
        (HOLD.replace('"mine"', '"mine"\nread_only = "x"') + 'steps = ["held {path}"]', 2, "a layout that is"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_layout("mine.toml", text)
    assert str(raised.value).startswith(f"mine.toml: line {line}: {why}")
    assert "\n" not in str(raised.value)


HELD = BASE + """\
[[match]]
box = "held"
path = "{held}"
[[action]]
name = "hold"
from = "new"
steps = [{steps}]
"""


@pytest.mark.parametrize(
    ("new", "held", "steps", "why"),
    [
        ("{source:a|b}/{id}", "hold/{id}", '"rename {path} hold/{name}"', "the name in hold/{name} does not tell its place"),
        ("queue/{put:sec}-{id}", "hold/{id}", '"rename {path} hold/{id}"', "the name in hold/{id} does not tell its"),
        ("queue/{id}", "hold/{id}", '"rename {path} hold/{name}", "write state/{id} held"', "hold does more than the rename"),
        ("queue/{id}", "hold/{id}.h", '"rename {path} hold/{name}"', "hold/x, as hold names a message, fits no [[match]]"),
        ("queue/{id}", "hold/{id}", '"rename {path} queue/{name}.held"', "queue/{name}.held is a place of new messages"),
        ("queue/{id}", 'hold/{id}"\n[[match]]\nbox = "new"\npath = "later/{id}', '"rename {path} hold/{name}"',
         "the place of a held message may be queue/{id} or later/{id}"),
    ],
)  # fmt: skip
def test_a_way_back_that_cannot_be_told_is_none_and_a_warning(new: str, held: str, steps: str, why: str) -> None:
    layout = parse_layout("mine.toml", HELD.replace("queue/{id}", new).replace("{held}", held).replace("{steps}", steps))
    assert [action.name for action in layout.actions] == ["hold"]
    (warning,) = [one for one in layout.warnings if "release" in one]
    assert warning.startswith("mine.toml: line ") and f": no release: {why}" in warning


def test_a_hold_of_directories_by_one_rename_has_a_release() -> None:
    text = HELD.replace("queue/{id}", "queue/{id:hex}/").replace("{held}", "hold/{id:hex}/")
    layout = parse_layout("mine.toml", text.replace("{steps}", '"rename {path} hold/{id}"'))
    release = layout.actions[-1]
    assert (release.name, release.boxes, [word.text for word in release.steps[0].words]) == (
        "release", ("held",), ["{path}", "queue/{id}"],
    )  # fmt: skip


@pytest.mark.parametrize("action", ["hold", "requeue"])
@pytest.mark.parametrize("to", ["hold/{name}", "queue/deep/{name}", "{name}"])
def test_a_move_to_a_folder_that_no_match_names_is_refused(action: str, to: str) -> None:
    text = f'{BASE}[[action]]\nname = "{action}"\nfrom = "new"\nsteps = ["rename {{path}} {to}"]\n'
    with pytest.raises(UsageError) as refused:
        parse_layout("mine.toml", text)
    why = f"{action} moves queue/{{id}} to {to}, a folder that no [[match]] names: nobody would see it there"
    assert why in str(refused.value)
    parse_layout("mine.toml", text.replace(f'"{action}"', '"purge"'))  # whoever removes wants it out of sight


def be(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


def test_a_layout_that_says_no_time_of_the_put_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    (warning,) = parse_layout("mine.toml", BASE).warnings
    why = "queue/{id} says no time of the put, so that of the file (mtime) counts: name enqueued_at"
    assert warning == f"mine.toml: line 5: {why}"
    for text in (f'{BASE}metadata = {{ enqueued_at = "mtime" }}\n', BASE.replace("{id}", "{put:sec}-{id}")):
        assert parse_layout("mine.toml", text).warnings == ()
    be(monkeypatch, 0)
    assert not [warning for file in layout_files({}) if file.layout is not None for warning in file.layout.warnings]


def test_a_file_that_strangers_may_write_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(BASE)
    file.chmod(0o644)
    own = file.stat().st_uid
    be(monkeypatch, own)
    assert read_layout(str(file)).name == "mine"
    be(monkeypatch, own + 1)
    with pytest.raises(UsageError, match=f"it belongs to user {own}, neither to you nor to root" if own else "others than"):
        file.chmod(0o644 if own else 0o666)
        read_layout(str(file))
    be(monkeypatch, own)
    file.chmod(0o646)
    with pytest.raises(UsageError, match="others than its owner may write it"):
        read_layout(str(file))


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_layout(str(file))
    for data, why in ((b'name = "\xff"', "line 1: not UTF-8"), (b"#" * 300_000, "cannot be read: File too large")):
        file.write_bytes(data)
        with pytest.raises(UsageError, match=why):
            read_layout(str(file))


def test_a_folder_that_strangers_may_write_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger could put a name there for any of root's files that holds what he wants."""
    folder = tmp_path / "spooltop/layouts"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(BASE)
    be(monkeypatch, folder.stat().st_uid or 1)
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    for mode, why in ((0o755, ""), (0o777, f"{folder}: others than its owner may write it"), (0o1777, f"{folder}: others")):
        folder.chmod(mode)
        (file,) = (one for one in layout_files(environ) if one.path.startswith(str(folder)))
        assert (file.layout is None) == bool(why) and str(file.error or "").startswith(why)


def test_root_does_not_read_the_layouts_of_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": str(tmp_path)}
    be(monkeypatch, 1000)
    assert folders(environ)[0] == f"{tmp_path}/.config/spooltop/layouts"
    assert folders({**environ, "XDG_CONFIG_HOME": "/c"})[0] == "/c/spooltop/layouts"
    be(monkeypatch, 0)
    assert folders(environ) == ("/etc/spooltop/layouts", SHIPPED)


@pytest.mark.parametrize(
    ("template", "path", "fields"),
    [
        ("queue/{seq:int}-{id}.msg", "queue/000000000004-retry-1.msg", {"seq": "000000000004", "id": "retry-1"}),
        ("queue/{seq:int}-{id}.msg", "queue/4-a.msg.msg", {"seq": "4", "id": "a.msg"}),
        ("queue/{seq:int}-{id}.msg", "queue/4-.msg", None),
        ("queue/{seq:int}-{id}.msg", "other/queue/4-a.msg", None),
        ("queue/.{pid:int}.{n:int}", "queue/.4242.0", {"pid": "4242", "n": "0"}),
        ("processing/{owner}/{id}.msg", "processing/w.msg/a.msg", {"owner": "w.msg", "id": "a"}),
        ("{dir:hexsec}/{id:hex14}", "6b00e590/6b00e5b7c2149f", {"dir": "6b00e590", "id": "6b00e5b7c2149f"}),
        ("{dir:hexsec}/{id:hex14}", "6b00e590/6b00e5b7c2149f.lck", None),
        ("{dir:hexsec}/{id:hex14}", "6b00e590/6b00e5b7c2149f\n", None),
        (
            "in/{tick:int}_{id:uuid}.{source}.msg",
            "in/17_0b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e.a.b.msg",
            {"tick": "17", "id": "0b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e", "source": "a.b"},
        ),
        ("queue/{prio:hex}-{put:hexms}*", "queue/fffe-01a1fb81560dx.tmp", {"prio": "fffe", "put": "01a1fb81560d"}),
        ("deferred/*/{id:pfid}", "deferred/7/7F3AB12C4D", {"id": "7F3AB12C4D"}),
        ("{a}-{b}-{c}", "1-2-3-4", {"a": "1", "b": "2", "c": "3-4"}),
        ("{folder:in|out|in.2}/{id}", "in.2/a", {"folder": "in.2", "id": "a"}),
        ("{folder:in|out}/{id}", "inn/a", None),
    ],
)
def test_a_path_is_taken_apart(template: str, path: str, fields: dict[str, str] | None) -> None:
    assert Template.parse(template).match(path) == fields


def test_no_template_takes_longer_than_a_name_is_long() -> None:
    """With a regular expression that goes back, each of these would take longer than any test lasts."""
    pieces = [f"{{p{i}}}a" for i in range(30)]
    template = Template.parse("".join(pieces) + "{last}b")
    assert template.match("a" * 255) is None
    assert Template.parse("*a" * 60 + "b").match("a" * 255) is None
    assert Template.parse("{x:int}{y:hex}{z:int}" * 1 + "q").match("1" * 255) is None


@pytest.mark.parametrize(
    ("unit", "text", "at"),
    [
        ("sec", "1795220919", 1795220919.0),
        ("ms", "1795220980725", 1795220980.725),
        ("us", "1795220980725001", 1795220980.725001),
        ("hexsec", "6b00e590", 1795220880.0),
        ("hexms", "01a1fb81560d", 1795220919.821),
        ("dirq", "6b00e5b7c2149f", 1795220919.794953),
        ("ms", "soon", None),
        ("sec", "nan", None),
        ("sec", "-1", None),
        ("timeval", "1795402546 669465", 1795402546.669465),
    ],
)
def test_a_time_is_read_in_its_unit(unit: str, text: str, at: float | None) -> None:
    assert time_of(unit, text) == at


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("America/New_York", 5), ("Asia/Kolkata", -5.5)])
def test_the_time_of_a_scheduled_task_of_huey(zone: str, hours: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes UTC of the time, and takes that for local time."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        naive = datetime.fromtimestamp(1795224519.821, UTC).replace(tzinfo=None)
        written = time.mktime(naive.timetuple()) + naive.microsecond / 1e6
        assert written == pytest.approx(1795224519.821 + hours * 3600)
        assert time_of("hexlocal", f"{int(written * 1000):012x}") == pytest.approx(1795224519.821, abs=0.002)
    finally:
        monkeypatch.undo()
        time.tzset()


KEPT = "layout"
"""File of spooltop's own that names the layout."""
EMPTIED = [(layout, [pair for pair in tried if pair[0] is not Action.REQUEUE][-1]) for layout, tried in BY_LAYOUT.items()]


def run(*words: str | Path, **settings: str) -> Done:
    return spooltop(*words, environ={"TERM": "xterm", **settings})


def kind_of(path: Path, as_kind: str = "", **settings: str) -> str:
    with open_control(str(path), watch=False, as_kind=as_kind, settings=settings or None) as control:
        return control.layout


def found_below(folder: Path) -> list[str]:
    """The targets that ``status`` finds in a folder of several."""
    return sorted(json.loads(line)["spool"] for line in run("status", folder, "--json").out.splitlines())


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
    listed = run("ops", queue)
    assert (listed.code, listed.err) == (0, "") and operation in listed.out
    assert run("check", queue).out.startswith("SPOOL OK")
    status = run("status", queue)
    assert (status.code, status.err) == (0, "") and kind_of(queue) == "layout"
    assert found_below(memory) == [str(queue)]
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
    assert "(nq)" in run("status", queue).out
    done = run("purge", queue, "--box", "delivered", "ALL", "--yes")
    if (queue / ".spooltop" / KEPT).is_dir():
        assert done.code == 5 and "Is a directory" in done.err and not world.set_aside()
    else:
        assert (done.code, done.err) == (0, "") and (queue / ".spooltop" / KEPT).read_bytes() == b"nq\n"


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
    shown = run("config", "show", XDG_CONFIG_HOME=str(memory / "config")).out
    assert any(line.startswith("layouts ") and f"{plain}=dirq simple:{boxes}/=nq" in line for line in shown.splitlines())
    for path, name in ((plain, "dirq simple"), (boxes, "nq")):
        assert f"({name})" in run("status", path).out
        with pytest.raises(SpooltopError, match=f"use {name} itself"):
            open_queue(str(path), action="put")
    (memory / "link").symlink_to(plain)
    assert kind_of(memory / "link") == "layout"
    assert found_below(memory) == [str(boxes), str(plain)]
    assert kind_of(boxes, "spool") == "spool"  # what is said now counts for more
    assert kind_of(boxes, SPOOLTOP_LAYOUTS=f"{boxes}=spool") == "spool"
    monkeypatch.setenv("SPOOLTOP_LAYOUTS", f"{plain}=huey")
    assert kind_of(boxes) == "spool"  # the first place that has a setting decides all of it
    monkeypatch.setenv("SPOOLTOP_LAYOUTS", str(plain))
    with pytest.raises(UsageError, match="is not PATH=NAME"):
        kind_of(plain)
    file.write_text('layouts = { "/a:b" = "nq" }\n')
    monkeypatch.delenv("SPOOLTOP_LAYOUTS")
    with pytest.raises(UsageError, match="layouts wants a list of words without a colon"):
        load(os.environ)


@needs("root")
@pytest.mark.parametrize(("uid", "kind"), [(0, "layout"), (65_534, "layout"), (65_533, "spool")])
def test_a_name_that_a_stranger_wrote_does_not_hide_a_spool(memory: Path, uid: int, kind: str) -> None:
    spool = memory / "jobs"
    for name in ("tmp", "new", "cur", ".spooltop"):
        (spool / name).mkdir(parents=True)
    (spool / ".spooltop" / KEPT).write_text("nq\n")
    os.chown(spool, 65_534, 65_534)
    os.chown(spool / ".spooltop" / KEPT, uid, uid)
    assert kind_of(spool) == kind
    for name in ("tmp", "new", "cur"):
        (spool / name).rmdir()
    assert kind_of(spool) == "layout"
