"""Layout files: each that ships loads, and each mistake is named with its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.backends.layouts.definition.layout import Fact
from spooltop.backends.layouts.definition.library import SHIPPED, folders, layout_files, read_layout
from spooltop.backends.layouts.definition.load import parse_layout
from spooltop.errors import UsageError

GOOD = """\
name = "mine"
detect = ["queue/", "?old/"]
[[match]]
box = "new"
path = "queue/{put:sec}-{id}.job"
order = "put"
[[match]]
box = "cur"
path = "work/{owner}/{id}.job"
metadata = { since = "ctime", attempts = "json:tries+1", reason = "tail:failed: {reason}" }
verdict = { lease = "workers/{owner}:ms", proves = "nothing", else = "watched" }
[[action]]
name = "requeue"
from = "cur"
needs = "dead"
steps = ["rename {path} queue/{put:next:010}-{id}.job", "write state/{id} queued at {now:ms}"]
"""


def test_the_layouts_that_ship_are_valid() -> None:
    found = [file for file in layout_files({}, uid=0) if file.path.startswith(SHIPPED)]
    assert [file.error for file in found] == [None] * len(found)
    assert sorted(os.path.basename(file.path) for file in found) == sorted(os.listdir(SHIPPED))
    assert len({file.layout.name for file in found if file.layout is not None}) == len(found) >= 8


def test_a_layout_is_read() -> None:
    with pytest.raises(UsageError):
        parse_layout("mine.toml", GOOD)  # write takes two words: the text has blanks
    good = GOOD.replace("queued at ", "queued:").replace('name = "mine"', 'name = "mine"\nwatched = "queue"')
    layout = parse_layout("mine.toml", good)
    assert (layout.name, layout.depth, layout.watched) == ("mine", 3, "queue")
    assert [sign.optional for sign in layout.detect] == [False, True]
    new, cur = layout.matches
    assert new.facts["enqueued_at"].unit == "sec"  # a piece called put is the time of the put
    assert (cur.facts["attempts"].name, cur.facts["attempts"].plus) == ("tries", 1)
    assert cur.verdict is not None and cur.verdict.watched and cur.verdict.proves_nothing
    assert [step.verb for step in layout.actions[0].steps] == ["rename", "write"]


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
        ('name = "x"\ndetect = ["?a/"]', 2, "detect needs at least one name that must be there, or needs_any a path"),
        ('name = "x"\ndetect = ["a/"]', 1, "there is no [[match]]: nothing would be a message"),
        ('name = "x"\ndetect = "a/"', 2, "detect must be a list"),
        ('name = "x"\ndetect = [1]', 2, "detect must be a list of texts"),
        (BASE + 'boxx = "new"', 6, "unknown key boxx; did you mean box?"),
        (BASE.replace('"new"', '"neww"'), 4, "box = 'neww': there are tmp, new, cur, held, rejected, delivered"),
        (BASE.replace("{id}", "{id:regex}"), 5, "path = 'queue/{id:regex}': {id:regex}: unknown type 'regex'; there are int,"),
        (BASE.replace("queue/{id}", "../{id}"), 5, "path = '../{id}': it has an empty part, . or .."),
        (BASE + 'when = "exists:../x"', 6, "when = '../x': it must lie below the directory"),
        (BASE + 'when = "size:3"', 6, "when = 'size:3': write exists:PATH, flock:PATH, tail:TEXT or mode:x"),
        (BASE.replace('"mine"', '"mine"\nclaim_long = "soon"'), 2, "claim_long = 'soon': "),
        (BASE.replace('"mine"', '"mine"\nclaim_long = 600'), 2, "claim_long must be a text"),
        (BASE + 'order = "seq"', 6, "order = 'seq': there are name, id"),
        (BASE + 'metadata = { since = "atime" }', 6, "since = 'atime': write mtime, ctime, json:, file:, tail:, record:, name:"),
        (BASE + 'metadata = { since = "id" }', 6, "since: the type of {id} is no time"),
        (BASE + 'metadata = { age = "mtime" }', 6, "unknown key age; there are enqueued_at, since,"),
        (BASE + 'metadata = { since = "json:a:weeks" }', 6, "since = 'weeks': there are sec, ms, us, hexsec, hexms, "),
        (BASE + 'verdict = { pid = "owner" }', 6, "pid = 'owner': there are id"),
        (BASE + 'verdict = { proves = "all" }', 6, "proves = 'all': there are nothing"),
        (BASE + 'verdict = { lease = "w/{id}:ms", else = "watched" }', 1, 'a verdict has else = "watched", but watched names no'),
        (HOLD.replace("hold", "eat") + 'steps = ["unlink {path}"]', 7, "name = 'eat': there are requeue, purge, hold"),
        (BASE + '[[action]]\nname = "hold"\nfrom = "cur"\nsteps = ["held {path}"]', 8, "no [[match]] puts a message into cur"),
        (HOLD + 'steps = ["eat {path}"]', 9, "steps = 'eat': there are rename, link,"),
        (HOLD + 'steps = ["rename {path}"]', 9, "'rename {path}': rename takes 2 words"),
        (HOLD + 'steps = ["unlink ../{id}"]', 9, "steps = '../{id}': it must lie below"),
        (HOLD + 'steps = ["unlink {seq}"]', 9, "steps = '{seq}': {seq}: no such piece"),
        (HOLD, 6, "an action needs steps"),
        (BASE + '[[problem]]\ncode = "conflict"\nwhen = "same:seq"\ntext = "x"', 8, "when = 'seq': there are id"),
        (BASE + '[[problem]]\ncode = "conflict"\nwhen = "alone:{id}.lck"\ntext = "x"', 8, "when = 'alone:{id}.lck': write"),
        (BASE + '[[cross_check]]\npath = "jobs/{id}"\nsays = ["{at:ms}"]\nmissing = "x"', 8, "says lists the texts of the file"),
        (BASE + '[[cross_check]]\npath = "jobs/{id}"\nsays = []\nmissing = "x"', 8, "says lists the texts of the file"),
        (BASE + '[locks."../x"]\nkind = "lease"', 6, "../x = '../x': it must lie below the directory"),
        (BASE.replace('"mine"', '"mine"\nside_dir = "/var"'), 2, "side_dir = '/var': a name in the directory"),
        (BASE.replace('"mine"', '"mine"\nlock = ".lock"'), 2, "lock is written flock:PATH"),
        (BASE.replace('"mine"', '"mine"\nside_dir = "../{root}"'), 2, "side_dir = '../{root}': a name in the directory"),
        (BASE.replace('"mine"', '"mine"\nlock = "flock:../.lock"'), 2, "lock = '../.lock': it has an empty part, . or .."),
        (BASE.replace('"mine"', '"mine"\nwatched = "/etc"'), 2, "watched = '/etc': it must lie below the directory"),
        (BASE.replace('"mine"', '"mine"\nwatched = "{id}"'), 2, "watched = '{id}': one file, without pieces and *"),
        (BASE.replace('"mine"', '"mi\\u001bne"'), 1, "name has characters that are not printable"),
        (BASE + 'verdict = { pidfile = "../../run/x.pid" }', 6, "pidfile = '../../run/x.pid': it has an empty part"),
        (BASE + 'verdict = { pid = "id" }', 6, "pid: {id} is no number: give it the type int"),
        (BASE.replace("{id}", "{pid}"), 5, "path: the piece called pid is that of a process: {pid:int}"),
        (BASE.replace("{id}", "a/b/c/d/e/f/g/{id}"), 5, "path = 'queue/a/b/c/d/e/f/g/{id}': it has 9 parts; a queue is read 8"),
        (BASE + 'when = "exists:1/2/3/4/5/6/7/8/{id}"', 6, "when = '1/2/3/4/5/6/7/8/{id}': it has 9 parts"),
        (BASE + 64 * '[[match]]\nbox = "new"\npath = "{id}"\n', 3, "match has 65 entries; there may be 64"),
        (BASE + "[commands]\nhold = \"x '{id}'\"", 7, "hold = \"x '{id}'\": a command with {id} for the message, no other"),
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
    ("new", "held", "steps", "back"),
    [
        ("queue/{id}", "hold/{id}", '"rename {path} hold/{name}"', "queue/{id}"),
        ("queue/{put:sec}-{id}.job", "hold/{id}.job", '"rename {path} hold/{name}"', "queue/{name}"),
        ("queue/{put:sec}-{id}.job", "hold/{put:sec}-{id}", '"rename {path} hold/{put}-{id}"', "queue/{put}-{id}.job"),
        ("{put:sec}.{id}", "hold/{put:sec}.{id}", '"rename {path} hold/{name}"', "{put}.{id}"),
        ("{source:a|b}/{id:hex4}", "hold/{source:a|b}-{id:hex4}", '"rename {path} hold/{source}-{id}"', "{source}/{id}"),
    ],
)
def test_a_folder_of_held_messages_has_the_inverse_rename_as_its_release(new: str, held: str, steps: str, back: str) -> None:
    text = HELD.replace("queue/{id}", new).replace("{held}", held).replace("{steps}", steps)
    _, release = parse_layout("mine.toml", text).actions
    assert (release.name, release.boxes) == ("release", ("held",))
    assert [(step.verb, [word.text for word in step.words]) for step in release.steps] == [("rename", ["{path}", back])]


@pytest.mark.parametrize(
    ("new", "held", "steps", "why"),
    [
        ("{source:a|b}/{id}", "hold/{id}", '"rename {path} hold/{name}"', "the name in hold/{name} does not tell its place"),
        ("queue/{put:sec}-{id}", "hold/{id}", '"rename {path} hold/{id}"', "the name in hold/{id} does not tell its"),
        ("queue/{id}", "hold/{id}", '"rename {path} hold/{name}", "write state/{id} held"', "hold does more than the rename"),
        ("queue/{id}", "hold/{id}.h", '"rename {path} hold/{name}"', "hold/x, as hold names a message, fits no [[match]]"),
        ("queue/{id}", "hold/{id}", '"rename {path} queue/{name}.held"', "queue/{name}.held is a place of new messages"),
    ],
)  # fmt: skip
def test_a_way_back_that_cannot_be_told_is_none_and_a_warning(new: str, held: str, steps: str, why: str) -> None:
    layout = parse_layout("mine.toml", HELD.replace("queue/{id}", new).replace("{held}", held).replace("{steps}", steps))
    assert [action.name for action in layout.actions] == ["hold"]
    (warning,) = [one for one in layout.warnings if "release" in one]
    assert warning.startswith("mine.toml: line ") and f": no release: {why}" in warning


def test_two_folders_that_are_held_in_one_have_no_release() -> None:
    text = HELD.replace("{held}", "hold/{id}").replace("{steps}", '"rename {path} hold/{name}"')
    text = text.replace('[[match]]\nbox = "held"', '[[match]]\nbox = "new"\npath = "later/{id}"\n[[match]]\nbox = "held"')
    layout = parse_layout("mine.toml", text)
    assert [action.name for action in layout.actions] == ["hold"]
    assert "the place of a held message may be queue/{id} or later/{id}" in layout.warnings[-1]


@pytest.mark.parametrize("action", ["hold", "requeue"])
@pytest.mark.parametrize("to", ["hold/{name}", "queue/deep/{name}", "{name}"])
def test_a_move_to_a_folder_that_no_match_names_is_refused(action: str, to: str) -> None:
    text = f'{BASE}[[action]]\nname = "{action}"\nfrom = "new"\nsteps = ["rename {{path}} {to}"]\n'
    with pytest.raises(UsageError) as refused:
        parse_layout("mine.toml", text)
    why = f"{action} moves queue/{{id}} to {to}, a folder that no [[match]] names: nobody would see it there"
    assert why in str(refused.value)
    parse_layout("mine.toml", text.replace(f'"{action}"', '"purge"'))  # whoever removes wants it out of sight


def test_a_message_that_says_no_time_is_as_old_as_its_file_and_loading_says_so() -> None:
    layout = parse_layout("mine.toml", BASE)
    assert layout.matches[0].facts["enqueued_at"] == Fact("mtime")
    (warning,) = layout.warnings
    why = "queue/{id} says no time of the put, so that of the file (mtime) counts: name enqueued_at"
    assert warning == f"mine.toml: line 5: {why}"
    for told in ('metadata = { enqueued_at = "mtime" }', 'metadata = { enqueued_at = "ctime" }'):
        assert parse_layout("mine.toml", f"{BASE}{told}\n").warnings == ()
    assert parse_layout("mine.toml", GOOD.split("[[action]]")[0].replace(', else = "watched"', "")).warnings == ()
    assert not [warning for file in layout_files({}, uid=0) if file.layout is not None for warning in file.layout.warnings]


def test_a_layout_names_how_long_its_claims_usually_last() -> None:
    assert parse_layout("mine.toml", BASE).claim_long is None
    assert parse_layout("mine.toml", 'claim_long = "2h"\n' + BASE).claim_long == 7200.0


@pytest.mark.parametrize(
    ("verdict", "proves"),
    [
        ("", False), ('{ proves = "nothing" }', False), ('{ lease = "w/{id}:ms" }', True),
        ('{ lease = "w/{id}:ms", proves = "nothing" }', False),
        ('{ open = "{path}", proves = "nothing" }', False),
        ('{ lease = "w/{id}:ms", proves = "nothing", else = "watched" }', True), ('{ flock = "{path}" }', True),
        ('{ open = "{path}" }', True), ('{ pidfile = "x.pid" }', True),
    ],
)  # fmt: skip
def test_a_layout_says_if_anything_in_it_can_prove_a_death(verdict: str, proves: bool) -> None:
    text = 'watched = "a"\n' + BASE.replace('box = "new"', 'box = "cur"') + (f"verdict = {verdict}\n" if verdict else "")
    assert parse_layout("mine.toml", text).proves_death is proves


def test_which_shipped_layouts_can_prove_a_death() -> None:
    layouts = [read_layout(os.path.join(SHIPPED, name)) for name in sorted(os.listdir(SHIPPED))]
    assert {one.name for one in layouts if one.proves_death} >= {"job-queue FileStorage", "nq", "Postfix queue"}
    none = {one.name for one in layouts if not one.proves_death}
    assert none >= {"dirq simple", "dirq normal", "Mailman queue", "huey FileStorage", "kombu filesystem"}


def test_a_file_that_strangers_may_write_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(BASE)
    file.chmod(0o644)
    own = file.stat().st_uid
    assert read_layout(str(file), own).name == "mine"
    with pytest.raises(UsageError, match=f"it belongs to user {own}, neither to you nor to root" if own else "others than"):
        file.chmod(0o644 if own else 0o666)
        read_layout(str(file), own + 1)
    file.chmod(0o646)
    with pytest.raises(UsageError, match="others than its owner may write it"):
        read_layout(str(file), own)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'name = "\xff"', "line 1: not UTF-8"),
        (b"#" * 300_000, "cannot be read: File too large"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, data: bytes | None, why: str) -> None:
    file = tmp_path / "mine.toml"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(UsageError, match=why):
        read_layout(str(file))


def test_a_folder_that_strangers_may_write_is_not_read(tmp_path: Path) -> None:
    """A stranger could put a name there for any of root's files that holds what he wants."""
    folder = tmp_path / "spooltop/layouts"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(BASE)
    uid = folder.stat().st_uid or 1
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    for mode, why in ((0o755, ""), (0o777, f"{folder}: others than its owner may write it"), (0o1777, f"{folder}: others")):
        folder.chmod(mode)
        (file,) = (one for one in layout_files(environ, uid) if one.path.startswith(str(folder)))
        assert (file.layout is None) == bool(why) and str(file.error or "").startswith(why)


def test_root_does_not_read_the_layouts_of_a_home(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert folders(environ, uid=1000)[0] == f"{tmp_path}/.config/spooltop/layouts"
    assert folders({**environ, "XDG_CONFIG_HOME": "/c"}, uid=1000)[0] == "/c/spooltop/layouts"
    assert folders(environ, uid=0) == ("/etc/spooltop/layouts", SHIPPED)


def test_the_users_own_layouts_come_first_and_an_invalid_one_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ".config/spooltop/layouts"
    folder.mkdir(parents=True)
    (folder / "b.toml").write_text(BASE)
    (folder / "a.toml").write_text("name = ")
    (folder / "c.txt").write_text("no layout")
    uid = folder.stat().st_uid or 1
    files = [file for file in layout_files({"HOME": str(tmp_path)}, uid=uid) if file.path.startswith(str(folder))]
    assert [(os.path.basename(file.path), file.layout is None) for file in files] == [("a.toml", True), ("b.toml", False)]
    assert "line 1: not valid TOML" in str(files[0].error)


def test_a_key_of_many_parts_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"mine\.toml: line 2: not valid TOML: A key of more than 32 parts"):
        parse_layout("mine.toml", 'name = "mine"\n' + ".".join(["a"] * 15_000) + " = 1\n")
