"""Setting a cursor: what was shown is what is replaced, and nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.backends.directory.cursors.files import CursorFiles
from spooltop.backends.directory.cursors.folders import cursor_rights
from spooltop.backends.directory.cursors.operator import CursorOperator
from spooltop.backends.directory.cursors.pinning import CursorRef
from spooltop.backends.directory.world import World
from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.journal.log_store import StateLogs
from spooltop.control import open_control
from spooltop.engine import CursorFile, Spool
from spooltop.errors import AuditFailed, NoSuchOperation, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome, Plan, Result
from spooltop.model.vocabulary import Action, Json
from spooltop.operate.operations import Operations
from tests.clock import Clock
from tests.needs import needs

NOBODY = 65534
needs_root = needs("root")

HOLDER = """
import fcntl, os, sys
from tests.needs import needs
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("has it", flush=True)
sys.stdin.read()
"""


class CursorDesk:
    """Operations on the cursors in ``path`` alone; the logs are in ``state``. ``waited`` counts the waits for the lock."""

    def __init__(self, path: Path, state: Path) -> None:
        self.path = path
        self.state = state
        self.waited = 0
        self.on_wait: Callable[[], None] = lambda: None
        self.clock = Clock()
        self.operator = self.new_operator()
        self.operations = Operations(self.operator, str(path), self.clock)

    def new_operator(self) -> CursorOperator:
        logs = StateLogs(str(self.path), LogFiles(), state_dir=str(self.state))
        return CursorOperator(str(self.path), logs, None, World(clock=self.clock), above=False, wait=self.wait, user="ann")

    def wait(self, seconds: float) -> None:
        self.waited += 1
        self.on_wait()

    def write(self, sections: Json, name: str = "cursors.json") -> Path:
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(sections, indent=2))
        return file

    def read(self, name: str = "cursors.json") -> Any:
        return json.loads((self.path / name).read_text())

    def plan(self, source: str, value: Json, *, force: bool = False, **options: Json) -> Plan:
        return self.operations.plan(
            Action.SET_CURSOR, Selection(), force=force, options={"source": source, "value": value, **options}
        )

    def set(self, source: str, value: Json, **options: Any) -> Result:
        return self.operations.apply(self.plan(source, value, **options))

    def undo(self, operation: str) -> Plan:
        return self.operations.plan(Action.UNDO, Selection(), options={"undoes": operation})

    def lines(self, name: str) -> list[dict[str, Any]]:
        (folder,) = self.state.iterdir()
        return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> CursorDesk:
    (tmp_path / "memex").mkdir()
    return CursorDesk(tmp_path / "memex", tmp_path / "state")


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """A process that holds the lock beside the cursors."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path / ".cursors.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.stdin.close()


def test_it_changes_that_section_and_not_a_byte_besides(desk: CursorDesk) -> None:
    file = desk.write({"email": {"at": 7}, "imessage": 89632})
    before = file.read_text()
    os.chmod(file, 0o640)
    result = desk.set("imessage", 89640)
    assert [one.outcome for one in result.items] == [Outcome.DONE]
    assert file.read_text() == before.replace("89632", "89640")
    assert file.stat().st_mode & 0o777 == 0o640
    assert result.undo == ("spooltop", "undo", str(desk.path), result.operation)


def test_the_plan_says_what_it_is_and_what_it_will_be(desk: CursorDesk) -> None:
    file = desk.write({"imessage": 89632})
    plan = desk.plan("imessage", 89640)
    assert (plan.count, plan.confirm) == (1, "y")
    assert plan.items[0].words == f"imessage: 89632 → 89640 in {file}"
    assert plan.notes[0] == f"imessage: 89632 → 89640 in {file}."
    assert plan.items[0].warning == ""
    assert plan.command == (
        "spooltop", "cursors", str(desk.path), "--set", "imessage=89640", "--type", "json", "--file", str(file),
    )  # fmt: skip
    assert desk.read() == {"imessage": 89632}


@pytest.mark.parametrize(
    ("value", "highest", "warning"),
    [
        (89600, None, "goes back below 89632, the highest seen"),
        (89640, 89700, "goes back below 89700, the highest seen"),
        ("89640", None, "its type changes from an integer to a string"),
        (None, None, "its type changes from an integer to null"),
    ],
)
def test_the_plan_warns_of_what_may_be_a_slip(desk: CursorDesk, value: Json, highest: Json, warning: str) -> None:
    desk.write({"imessage": 89632})
    plan = desk.plan("imessage", value, highest=highest, type="json")
    assert warning in plan.items[0].warning
    assert any(warning[5:] in note for note in plan.notes)


def test_a_lock_that_is_held_too_long_is_told_and_nothing_is_written(desk: CursorDesk) -> None:
    desk.write({"imessage": 89632})
    with locked(desk.path):
        (one,) = desk.set("imessage", 89640).items
    assert one.outcome is Outcome.SKIPPED
    assert one.reason == ".cursors.lock is held by another for 10 s; spooltop locks says by whom"
    assert desk.waited > 1
    assert desk.read() == {"imessage": 89632}


def test_it_waits_for_the_lock(desk: CursorDesk) -> None:
    desk.write({"imessage": 89632})
    plan = desk.plan("imessage", 89640)
    with ExitStack() as holding:
        holding.enter_context(locked(desk.path))
        desk.on_wait = holding.close
        assert desk.operations.apply(plan).items[0].outcome is Outcome.DONE
    assert desk.waited == 1


def test_the_books_hold_before_and_after(desk: CursorDesk) -> None:
    file = desk.write({"imessage": 89632})
    result = desk.set("imessage", 89640)
    began, ended = desk.lines("cursors.jsonl")
    assert (began["line"], began["before"], began["after"], began["file"]) == ("intent", 89632, 89640, str(file))
    assert (ended["line"], ended["outcome"]) == ("result", "done")
    before, after = desk.lines("audit.jsonl")
    assert (before["event"], after["event"]) == ("before", "after")
    assert before["names"] == [f"imessage: 89632 → 89640 in {file}"]
    assert before["options"]["value"] == 89640
    assert after["operation"] == result.operation
    assert after["outcomes"] == "done"
    assert (desk.state / os.listdir(desk.state)[0]).stat().st_mode & 0o077 == 0


def test_what_cannot_be_written_down_does_not_happen(desk: CursorDesk) -> None:
    desk.write({"imessage": 89632})
    desk.state.write_text("a file where the logs should be")
    with pytest.raises(AuditFailed):
        desk.set("imessage", 89640)
    assert desk.read() == {"imessage": 89632}


@pytest.mark.parametrize("stands", [89632, 89640, 5])
def test_a_crash_between_intent_and_result_is_looked_into(desk: CursorDesk, stands: int) -> None:
    file = desk.write({"imessage": 89632})
    desk.set("imessage", 89640)
    (folder,) = desk.state.iterdir()
    journal = folder / "cursors.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:1]) + '{"schema":1,"line":"res')
    CursorFile(file).advance("imessage", stands)
    (record,) = desk.operations.records()
    assert (record.open, record.done) == (True, int(stands == 89640))
    plan = desk.undo(record.operation)
    assert plan.count == int(stands == 89640)
    assert any("cut off" in note for note in plan.notes)


def test_an_undo_that_changed_nothing_may_be_tried_again(desk: CursorDesk) -> None:
    file = desk.write({"imessage": 89632})
    result = desk.set("imessage", 89640)
    plan = desk.undo(result.operation)
    CursorFile(file).advance("imessage", 5)
    assert desk.operations.apply(plan).items[0].outcome is Outcome.SKIPPED
    CursorFile(file).advance("imessage", 89640)
    again = desk.undo(result.operation)
    assert again.count == 1
    assert desk.operations.apply(again).items[0].outcome is Outcome.DONE
    assert desk.undo(result.operation).count == 0


def test_a_value_made_of_what_is_shown_of_a_large_section_is_refused(desk: CursorDesk) -> None:
    desk.write({"imessage": {"cursor": 5, "seen": "x" * 100_000}})
    (refusal,) = desk.plan("imessage", {"cursor": 6}).refused
    assert "too large to be shown whole: this would drop 1 field of it" in refusal.reason
    assert refusal.forceable


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"imessage": 1} x'])
def test_what_does_not_parse_is_left_alone(desk: CursorDesk, content: str) -> None:
    file = desk.write({"imessage": 1})
    plan = desk.plan("imessage", 2)
    file.write_text(content)
    (refusal,) = desk.plan("imessage", 2).refused
    assert "does not read" in refusal.reason
    assert not refusal.forceable
    assert desk.operations.apply(plan).items[0].outcome is Outcome.SKIPPED
    assert file.read_text() == content


def test_a_source_that_is_not_there_wants_force(desk: CursorDesk) -> None:
    file = desk.write({"imessage": 1})
    (refusal,) = desk.plan("imesage", 2).refused
    assert refusal.reason == f"{file} has no imesage; it has imessage"
    assert refusal.forceable
    made = desk.operations.apply(desk.plan("imesage", 2, force=True))
    assert desk.read() == {"imessage": 1, "imesage": 2}
    assert "no section before" in desk.undo(made.operation).refused[0].reason


def test_a_file_without_a_source_says_that_it_has_none(desk: CursorDesk) -> None:
    file = desk.write({})
    (refusal,) = desk.plan("imessage", 2).refused
    assert refusal.reason == f"{file} has no imessage; it has none"


def test_one_file_a_source(desk: CursorDesk) -> None:
    desk.write(7, "cursors/teams.json")
    desk.write({"cursor": 5}, "cursors/email.json")
    assert desk.set("teams", 8).items[0].outcome is Outcome.DONE
    assert desk.read("cursors/teams.json") == 8
    with pytest.raises(UsageError, match="no source signal"):
        desk.plan("signal", 1)


def test_a_source_in_two_files_wants_to_know_which(desk: CursorDesk) -> None:
    desk.write({"teams": 1, "email": 2})
    desk.write(7, "cursors/teams.json")
    with pytest.raises(UsageError, match="stands in"):
        desk.plan("teams", 9)
    desk.set("teams", 9, file=str(desk.path / "cursors" / "teams.json"))
    assert (desk.read(), desk.read("cursors/teams.json")) == ({"teams": 1, "email": 2}, 9)
    with pytest.raises(UsageError, match="no cursor file here"):
        desk.plan("teams", 9, file="/etc/passwd")


def test_no_link_leads_it_out(desk: CursorDesk, tmp_path: Path) -> None:
    desk.write(7, "cursors/teams.json")
    plan = desk.plan("teams", 8)
    elsewhere = tmp_path / "elsewhere"
    os.rename(desk.path / "cursors", elsewhere)
    (desk.path / "cursors").symlink_to(elsewhere)
    ((one,),) = desk.operator.perform(plan)  # as if it had been put there just after the rights were asked for
    assert one.outcome is not Outcome.DONE
    assert sorted(os.listdir(elsewhere)) == ["teams.json"]
    assert (elsewhere / "teams.json").read_text() == "7"


def test_another_directory_of_that_name_is_another(desk: CursorDesk, tmp_path: Path) -> None:
    desk.write(7, "cursors/teams.json")
    plan = desk.plan("teams", 8)
    os.rename(desk.path / "cursors", tmp_path / "elsewhere")
    desk.write(7, "cursors/teams.json")
    (one,) = desk.operations.apply(plan).items
    assert (one.outcome, one.reason) == (Outcome.SKIPPED, "the directory was replaced since the list was made")
    assert desk.read("cursors/teams.json") == 7


def test_a_link_in_place_of_the_file_is_not_followed(desk: CursorDesk, tmp_path: Path) -> None:
    file = desk.write({"imessage": 1})
    plan = desk.plan("imessage", 2)
    os.rename(file, tmp_path / "real.json")
    file.symlink_to(tmp_path / "real.json")
    ((one,),) = desk.operator.perform(plan)
    assert one.outcome is Outcome.SKIPPED
    assert file.is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == {"imessage": 1}


@needs_root
@pytest.mark.parametrize(("mode", "folder", "allowed"), [(0o644, 0o755, False), (0o666, 0o755, False), (0o666, 0o777, True)])
def test_who_may_not_is_told_whose_it_is(desk: CursorDesk, mode: int, folder: int, allowed: bool) -> None:
    file = desk.write({"imessage": 1})
    os.chmod(file, mode)
    os.chmod(desk.path, folder)
    fd = os.open(desk.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.seteuid(NOBODY)
        folders = [(str(desk.path), fd)]
        why = cursor_rights(CursorFiles(World()).look(folders, lambda _: ()), folders)
    finally:
        os.seteuid(0)
        os.close(fd)
    assert (why is None) is allowed
    assert why is None or ("belongs to root" in why and "Try: sudo -u root spooltop cursors" in why)


def test_a_forged_journal_leads_nowhere(desk: CursorDesk, tmp_path: Path) -> None:
    desk.write({"imessage": 1})
    done = desk.set("imessage", 2)
    victim = tmp_path / "cursors.json"
    victim.write_text('{"imessage": 2}')
    (folder,) = desk.state.iterdir()
    journal = folder / "cursors.jsonl"
    lines = [line.replace(str(desk.path / "cursors.json"), str(victim)) for line in journal.read_text().splitlines(keepends=True)]
    journal.write_text("".join(lines) + '{"schema":1,"line":"intent","operation":"../x"}\n[]\n')
    plan = desk.undo(done.operation)
    assert plan.count == 0
    assert "no cursor file of this target" in plan.refused[0].reason
    assert any("2 lines" in note for note in plan.notes)
    assert victim.read_text() == '{"imessage": 2}'


def test_in_a_spool_it_stands_with_its_operations(tmp_path: Path, clock: Any) -> None:
    path = tmp_path / "spool"
    with Spool.create(path) as spool:
        spool.put(b"x")
    (tmp_path / "cursors.json").write_text('{"imessage": 5}')  # beside the spool, as the view finds it
    with open_control(str(path), settings={}, watch=False, clock=clock) as control:
        assert control.look().observation.capabilities.why_not(Action.SET_CURSOR) is None
        plan = control.plan(Action.SET_CURSOR, Selection(), options={"source": "imessage", "value": 9, "file": None})
        done = control.apply(plan)
        clock.advance(1)
        injected = control.apply(control.plan(Action.INJECT, Selection(), options={"count": 1}))
        assert [record.operation for record in control.operations()] == [injected.operation, done.operation]
        assert control.look().cursors[0].value == 9
        back = control.plan(Action.UNDO, Selection(), options={"undoes": done.operation})
        assert control.apply(back).items[0].outcome is Outcome.DONE
        control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": injected.operation}))
        assert control.look().cursors[0].value == 5
        with pytest.raises(NoSuchOperation):
            control.plan(Action.UNDO, Selection(), options={"undoes": "ffffffffff"})
    assert (path / ".spooltop" / "cursors.jsonl").exists()
    assert "imessage: 5 → 9" in json.loads((path / ".spooltop" / "audit.jsonl").read_text().splitlines()[0])["names"][0]


def test_below_its_highest_is_told_from_what_was_watched(tmp_path: Path, clock: Any) -> None:
    Spool.create(tmp_path / "spool").close()
    file = tmp_path / "cursors.json"
    with open_control(str(tmp_path / "spool"), settings={}, watch=False, clock=clock) as control:
        for value in (50, 90, 70):
            file.write_text(json.dumps({"imessage": value, "n": "x" * value}))
            control.look()
        plan = control.plan(Action.SET_CURSOR, Selection(), options={"source": "imessage", "value": 80})
    assert "goes back below 90" in plan.items[0].warning


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), st.data())
def test_set_and_undo_meet_again(sections: dict[str, Json], data: st.DataObject) -> None:
    source, value = data.draw(st.sampled_from(sorted(sections))), data.draw(VALUES)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "memex").mkdir()
        desk = CursorDesk(Path(folder) / "memex", Path(folder) / "state")
        desk.write(sections)
        plan = desk.plan(source, value, type="json")
        if not plan.count:
            assert json.dumps(sections[source], sort_keys=True) == json.dumps(value, sort_keys=True)
            return
        ref = plan.items[0].ref
        assert isinstance(ref, CursorRef)
        done = desk.operations.apply(plan)
        assert desk.read() == {**sections, source: value}
        assert all(line.isprintable() for line in (*plan.notes, plan.items[0].words, *plan.command))
        desk.operations.apply(desk.undo(done.operation))
        assert desk.read() == sections
        assert [record.done for record in desk.operations.records()] == [1, 1]
