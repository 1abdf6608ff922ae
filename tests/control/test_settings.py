"""Sources of settings; ``control`` forbids and hides what they forbid and hide."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.pretty import pretty_repr

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.errors import Refused, UsageError
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Selection
from spooltop.model.redact import REDACTED, Redactor, unredact
from spooltop.model.target import Target
from spooltop.model.vocabulary import Action, Box, Json
from spooltop.settings import Settings, files_of, from_environ, load
from tests.cli.streams import spooltop
from tests.needs import needs


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with Spool.create(tmp_path / "prod" / "memex", durable=False) as made:
        made.put(b'{"id": 1, "Token": "s3cret", "deep": {"password": ["s3cret", {"a": "]"}]}}', id="one")
    return tmp_path / "prod" / "memex"


def opened(path: Path | str, **settings: str) -> Control:
    words = {f"SPOOLTOP_{name.upper()}": value for name, value in settings.items()}
    return open_control(str(path), watch=False, settings=words)


def test_the_parts_of_a_control_are_not_printed(spool: Path) -> None:
    with opened(spool, redis_password="s3cret") as control:
        control.look()
        assert "s3cret" not in f"{control!r} {control} {[control]} {pretty_repr(control)}"


def refusals(control: Control) -> list[str]:
    said = []
    for action in Action:
        with pytest.raises(Refused) as refused:
            control.plan(action, Selection(box=Box.NEW, everything=True))
        said.append(str(refused.value))
    return said


def test_the_first_place_that_names_a_setting_decides(tmp_path: Path) -> None:
    own, system = tmp_path / "own.toml", tmp_path / "system.toml"
    own.write_text(
        'claim_long = "20m"\nredact = ["token", "password"]\nredis_tickets = ["redis://h:1", "unix:///s#a"]\n'
        '[lock]\nblocked = "2m"\n'
    )
    system.write_text('claim_long = "30m"\ntmp_old = "40m"\nread_only = "/var/spool/prod*"\nsyslog = true\npoison_deaths = 5\n')
    found = load({"SPOOLTOP_TMP_OLD": "50m", "HOME": "/home/ann"}, [str(own), str(system)])
    assert {name: value for name, value in found.words.items() if name.startswith("SPOOLTOP_")} == {
        "SPOOLTOP_TMP_OLD": "50m", "SPOOLTOP_CLAIM_LONG": "20m", "SPOOLTOP_REDACT": "token:password",
        "SPOOLTOP_LOCK_BLOCKED": "2m", "SPOOLTOP_READ_ONLY": "/var/spool/prod*", "SPOOLTOP_SYSLOG": "1",
        "SPOOLTOP_POISON_DEATHS": "5", "SPOOLTOP_REDIS_TICKETS": "redis://h:1 unix:///s#a",
    }  # fmt: skip
    assert found.items("redis_tickets") == ("redis://h:1", "unix:///s#a")
    assert found.words["HOME"] == "/home/ann"
    assert found.syslog and found.redact == ("token", "password")
    assert from_environ({"SPOOLTOP_REDACT": ":token, password,"}).redact == found.redact
    memex = Target("spool", "/var/spool/prod7/memex", "/var/spool/prod7/memex")
    assert f"read_only in {system}: /var/spool/prod*" in (found.why_read_only(memex) or "")
    empty = load({"SPOOLTOP_READ_ONLY": ""}, [str(own), str(system)])
    assert empty.why_read_only(memex) is None


def test_the_files_are_the_users_own_then_the_systems(tmp_path: Path) -> None:
    assert files_of({"HOME": "/home/ann"}) == ("/home/ann/.config/spooltop/config.toml", "/etc/spooltop.toml")
    assert files_of({"HOME": "/h", "XDG_CONFIG_HOME": "/x"})[0] == "/x/spooltop/config.toml"
    assert files_of({"HOME": "/h", "XDG_CONFIG_HOME": "x"})[0] == "/h/.config/spooltop/config.toml"
    assert files_of({}) == ("/etc/spooltop.toml",)
    assert load({}, [str(tmp_path / "none"), str(tmp_path / "none" / "below")]) == Settings({})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("claim_lnog = 3", "no setting claim_lnog; did you mean claim_long?"),
        ("read_only = 3", "read_only wants a list of words"),
        ('redact = ["a:b"]', "without a colon"),
        ('redis_tickets = ["redis://a redis://b"]', "without a blank"),
        ("claim_long = [1]", "claim_long wants one word"),
        ("claim_long = ", "is not valid TOML"),
        ("\x1b = 1", "is not valid TOML"),
        ('"\\u001b[31m" = 1', "no setting \\x1b[31m"),
    ],
)
def test_a_file_that_makes_no_sense_is_no_silence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        load({}, [str(file)])
    assert said in str(error.value) and str(file) in str(error.value) and str(error.value).isprintable()


def test_a_file_of_settings_that_is_none_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 10 << 30)
    for name, said in (("fifo", "not a regular file"), ("huge", "larger than 1 MiB"), (".", "not a regular file")):
        with pytest.raises(UsageError, match=said):
            load({}, [str(tmp_path / name)])
    with pytest.raises(UsageError, match="neither yes nor no"):
        _ = from_environ({"SPOOLTOP_SYSLOG": "maybe"}).syslog


@pytest.mark.parametrize("form", ["{path}", "{path}/", "{above}/pro*", "{above}", "/nothing:{above}/p?od", "/", "{link}"])
def test_what_a_glob_names_and_all_below_it_is_read_only_at_the_door(spool: Path, tmp_path: Path, form: str) -> None:
    (tmp_path / "link").symlink_to(spool)
    glob = form.format(path=spool, above=spool.parent.parent, link=tmp_path / "link")
    for path in (spool, tmp_path / "link"):
        with opened(path, read_only=glob) as control:
            look = control.look()
            assert not look.observation.capabilities.change
            said = refusals(control)
    assert all("read-only here, by SPOOLTOP_READ_ONLY" in one for one in said)
    assert os.listdir(spool / "new") == ["one,n=0"] and not (spool / ".spooltop" / "journal.jsonl").exists()
    for glob in ("/nothing*", f"{spool}2", f"{spool.parent}/x*", ""):
        with opened(spool, read_only=glob) as control:
            assert control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)).count == 1


def test_the_flag_is_held_by_the_door_too_and_a_plan_of_before_is_not_applied(spool: Path) -> None:
    with opened(spool) as control:
        plan = control.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    with open_control(str(spool), watch=False, read_only=True, settings={}) as control:
        assert all("--read-only" in text for text in refusals(control))
    with opened(spool, read_only=str(spool)) as control, pytest.raises(Refused):
        control.apply(plan)
    assert os.listdir(spool / "new") == ["one,n=0"]


def test_what_is_redacted_is_in_no_payload(spool: Path) -> None:
    with opened(spool, redact="token:password") as control:
        control.look()
        [row] = control.listing(ListQuery(Box.NEW)).window(0, 9)
        payload = control.read(row.key)
        cut = control.read(row.key, 25)
    parsed = json.loads(payload.data)
    assert parsed == {"id": 1, "Token": REDACTED, "deep": {"password": REDACTED}}
    assert b"s3" not in cut.data and REDACTED.encode() in cut.data


def nested(times: int) -> bytes:
    """A field in strings within strings."""
    text = '"token":"SECRET"'
    for _ in range(times):
        text = '"' + text.replace("\\", "\\u005c").replace('"', "\\u0022") + '"'
    return text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b'{"token":"SECRET"}', b'{"t\\u006fken" :\n "SECRET"}', b'{"TOKEN":"SE\\"CRET"',
        b'{"token":"SECRET', b'{"token": SECRET}',
        b'[{"a":"x"},\n{"token":["SECRET",{"]":"SECRET"}]}]', b'{"token":{"a":"SECRET"', b'{"a":1}\n{"token":"SECRET"}\n',
        b'{"body":"{\\"token\\":\\"SECRET\\"}"}', b'{"body":"{\\"token\\": [\\"SECRET',
        b'{"b":"\\u007b\\u0022token\\u0022:\\u0022SECRET"}',
        b'"{\\"b\\":\\"{\\\\\\"token\\\\\\":\\\\\\"SECRET\\\\\\"}\\"}"',
        b'not 5" json {"token":"SECRET"}', b'{"a":"\\\\","token":"SECRET"}', b'\xff\xfe{"token":"SECRET\xff"}',
        b'{"api\\key":"SECRET"}', b'{"cl\xff":"SECRET"}', nested(12), b'{"t\\u006f\tken":"SECRET"}',
    ],
)  # fmt: skip
def test_no_form_of_a_field_gets_through(data: bytes) -> None:
    assert b"CRET" not in Redactor(["Token", "api\\key", "cl\N{REPLACEMENT CHARACTER}", "to\tken"]).data(data)
    assert Redactor([]).data(data) == data
    for other in (b"", b'{"a":"token"}', b"token: x", b'{"tokens":"x"}', bytes(range(256)), b'"' * 999):
        assert Redactor(["token"]).data(other) == other  # it has no such field


def test_json_within_a_string_stays_json_and_only_its_field_goes() -> None:
    inner = {"token": "SECRET", "text": 'a "b"\n\\'}
    parsed = json.loads(Redactor(["token"]).data(json.dumps({"body": json.dumps(inner), "id": 1}).encode()))
    assert parsed["id"] == 1
    assert json.loads(parsed["body"]) == {**inner, "token": REDACTED}


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32"])
def test_wide_encodings_are_redacted(codec: str) -> None:
    whole = '{"id": 1, "token": "SECRET", "text": "é"}'.encode(codec)
    for data in (whole, whole[:-17], *((b"\x00" + whole,) if "16" in codec else ())):
        hidden = Redactor(["token"]).data(data)
        assert b"CRET" not in hidden.replace(b"\0", b"") and b"i\0" in hidden
        assert Redactor(["other"]).data(data) == data


SECRET = "s3cret"
FIELDS = "token,password"


def redacting(path: str, **options: Any) -> Control:
    return open_control(path, **{**options, "settings": {"SPOOLTOP_REDACT": FIELDS}})


@pytest.fixture
def secretive(tmp_path: Path) -> Path:
    """A spool with a cursor file that has secrets in it."""
    path = tmp_path / "spool"
    Spool.create(path, durable=False).close()
    (path / "cursors.json").write_text(
        json.dumps({"teams": {"cursor": 7, "token": SECRET}, "password": SECRET, "mail": {"password": SECRET}, "n": 1})
    )
    return path


def all_output(path: Path) -> str:
    """Returns the command line's output about the cursors."""
    outputs = []
    for words in (["status"], ["cursors"], ["ops"]):
        for more in ([], ["--json"]):
            done = spooltop(words[0], path, *more, opener=redacting)
            assert done.code == 0
            outputs.append(done.out + done.err)
    return "".join(outputs)


def test_a_redacted_cursor_is_set_and_undone_unseen(secretive: Path) -> None:
    output = all_output(secretive)
    assert SECRET not in output and "redacted" in output
    marked = spooltop("cursors", secretive, "--set", f'n={{"token":"{REDACTED}"}}', "--type", "json", "--yes")
    assert (marked.code, REDACTED in (secretive / "cursors.json").read_text()) == (2, False), "the mark is never stored"
    plan = spooltop("cursors", secretive, "--set", "teams=8", "--dry-run", "--json", opener=redacting)
    assert SECRET not in plan.out and "redacted" in plan.out
    done = spooltop(*json.loads(plan.out)["command"][1:], "--yes", opener=redacting)
    assert (done.code, SECRET in done.out + done.err) == (0, False)
    assert json.loads((secretive / "cursors.json").read_text())["teams"] == {"cursor": 8, "token": SECRET}
    own = spooltop("cursors", secretive, "--set", 'mail={"password":"s3cret2"}', "--yes", opener=redacting)
    assert (own.code, SECRET in own.out + own.err) == (0, False)
    whole = spooltop("cursors", secretive, "--set", "password=s3cret3", "--yes", opener=redacting)
    assert (whole.code, SECRET in whole.out + whole.err) == (0, False)
    sections = json.loads((secretive / "cursors.json").read_text())
    assert (sections["mail"], sections["password"]) == ({"password": "s3cret2"}, "s3cret3")
    text = '{"id": 1, "password": "s3cret"}'
    assert SECRET not in all_output(secretive)
    operation = json.loads(spooltop("ops", secretive, "--json").out.splitlines()[0])["operation"]
    injected = spooltop("inject", secretive, "--text", text, "--yes", opener=redacting)
    assert (injected.code, SECRET in injected.out + injected.err + all_output(secretive)) == (0, False)
    [name] = os.listdir(secretive / "new")
    assert (secretive / "new" / name).read_text() == text
    assert spooltop("undo", secretive, operation, "--yes", opener=redacting).code == 0
    assert json.loads((secretive / "cursors.json").read_text())["password"] == SECRET


def test_a_hidden_cursor_is_still_watched(secretive: Path) -> None:
    with opened(secretive, redact=FIELDS) as control:
        def section() -> tuple[object, str]:
            [found] = [one for one in control.look(rescan=True).cursors if one.source == "mail"]
            return found.value, found.verdict

        first, _ = section()
        (secretive / "cursors.json").write_text(json.dumps({"mail": {"password": "another"}}))
        second, _ = section()
        assert first != second and SECRET not in f"{first}" and "another" not in f"{second}"


def test_a_section_nested_too_deep_is_hidden_as_a_whole_and_a_list_takes_its_hidden_values_back() -> None:
    value: Json = {"token": SECRET}
    for _ in range(300):
        value = [value]
    assert SECRET not in json.dumps(Redactor(["token"]).section("", value))
    assert unredact([1, {"t": REDACTED}], [1, {"t": "x"}]) == [1, {"t": "x"}]
    with pytest.raises(ValueError):
        unredact([1, {"t": REDACTED}], [{"t": "x"}])


def test_a_changed_settings_file_counts_from_the_next_look_on(
    spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spooltop" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with open_control(str(spool)) as control:

        def notes() -> list[str]:
            return [problem.text for problem in control.look().problems if problem.code == "settings"]

        before = control.trash_retention
        file.parent.mkdir()
        file.write_text('trash_retention = "1d"\n')
        assert notes() == [] and control.trash_retention == 86_400 != before
        for wrong in ("trash_retention = 1d\n", 'trash_retention = "soon"\n', 'unheard_of = "1d"\n'):
            file.write_text(wrong)
            assert notes() == notes() and "changed settings are not used: " in notes()[0] and str(file) in notes()[0]
            assert control.trash_retention == 86_400
        file.write_text(f'read_only = "{spool}"\n')
        assert notes() == [] and control.trash_retention == before
        assert all("read-only here, by read_only in " in text for text in refusals(control))
        file.unlink()
        assert notes() == [] and all("read-only here" in text for text in refusals(control))  # as shown, until it is opened again


@pytest.mark.parametrize(
    "line", ['redis_password = "s3cret"', '[redis]\npassword = "s3cret"', 'redis_tickets = ["redis://h", "redis://me:s3cret@h"]']
)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_password_in_a_file_of_others_is_refused(
    tmp_path: Path, line: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # root does not read a file that others may write
    file = tmp_path / "config.toml"
    file.write_text(line)
    file.chmod(mode)
    with pytest.raises(UsageError) as refused:
        load({}, [str(file)])
    assert f"its mode {mode:04o} opens it to others; chmod 600 {file}" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    file.chmod(0o600)
    assert "s3cret" in "".join(load({}, [str(file)]).words.values())
    file.chmod(0o644)
    file.write_text('redis_user = "viewer"\nredis_password = ""\nredis_tickets = ["redis://me@h"]')  # a user alone is no secret
    assert load({}, [str(file)]).words["SPOOLTOP_REDIS_USER"] == "viewer"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of another user, where root looks for settings."""
    file = tmp_path / "home" / ".config" / "spooltop" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[claims]\nhosts = "this-machine"\n')
    if os.geteuid() == 0:
        os.chown(tmp_path / "home", 65534, 65534)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "home"


def test_root_reads_no_settings_of_a_home_that_is_not_its_own(
    home: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / ".config" / "spooltop" / "config.toml"
    assert load({"HOME": str(home)}).claims_hosts == "any"
    (home.parent / "root").mkdir()
    (home.parent / "root" / ".config").symlink_to(home / ".config")
    assert load({"HOME": str(home.parent / "root")}).claims_hosts == "any", "a link out of its home is not followed to it"
    done = spooltop("status", spool, environ={"TERM": "xterm", "HOME": str(home)})
    assert done.code == 0
    assert done.err.startswith(f"spooltop: warning: {file} is not read: ") and done.err.count("\n") == 1
    assert "neither to you nor to root" in done.err and "/etc/spooltop.toml" in done.err
    shown = spooltop("config", "show", environ={"TERM": "xterm", "HOME": str(home)})
    assert f"{file}: not read: " in shown.out and "this-machine" not in shown.out
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert load({"HOME": str(home)}).claims_hosts == "this-machine", "an ordinary user reads its own"


@needs("root")
@pytest.mark.parametrize(
    ("what", "mode", "read"),
    [("config.toml", 0o666, False), ("config.toml", 0o664, False), (".", 0o777, False), (".", 0o1777, True), (".", 0o755, True)],
)
def test_root_reads_what_nobody_else_may_write(home: Path, what: str, mode: int, read: bool) -> None:
    os.chown(home, 0, 0)
    folder = home / ".config" / "spooltop"
    os.chown(folder / "config.toml", 0, 65534)
    (folder / what).chmod(mode)
    assert (load({"HOME": str(home)}).claims_hosts == "this-machine") is read


WRONG = [
    ('claim_long = "soon"', "claim_long in {}: soon: invalid duration 'soon'"),
    ('[claim]\nlong = "soon"', "claim_long in {}: soon: invalid duration 'soon'"),
    ('disk_low = "x"', 'disk_low in {}: x is not a whole number; write disk_low = "3"'),
    ('claims_hosts = "mine"', "claims_hosts in {}: mine is neither any nor this-machine"),
]


def test_a_wrong_value_names_the_file_that_has_it(tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "spooltop" / "config.toml"
    file.parent.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for line, said in WRONG:
        file.write_text(line)
        for command in (["status", spool], ["config", "show"]):
            done = spooltop(*command, environ=dict(os.environ))
            assert done.code == 2 and done.err.startswith("spooltop: " + said.format(file)), done.err
            assert "SPOOLTOP_" not in done.err
