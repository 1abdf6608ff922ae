"""Setting a cursor: what was shown is what is replaced, and nothing else changes."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.errors import AuditFailed, SpooltopError, UsageError
from spooltop.model.plan import Outcome, Plan, Selection
from spooltop.model.vocabulary import Action, Json
from tests.backends.conftest import Interpose
from tests.builders import SpoolWorld

NONE = Selection()


class Cursors(SpoolWorld):
    """Spool whose cursor file has the sections ``{"imessage": 89632}``."""

    def build(self) -> None:
        super().build()
        self.cursors(imessage=89632)

    @property
    def file(self) -> Path:
        return self.path / "cursors.json"

    def read(self, name: str = "cursors.json") -> Any:
        return json.loads((self.path / name).read_text())

    def plan(self, source: str, value: Json, *, force: bool = False, **options: Json) -> Plan:
        with self.control() as control:
            return control.plan(Action.SET_CURSOR, NONE, force=force, options={"source": source, "value": value, **options})

    def set(self, source: str, value: Json, **options: Any) -> tuple[str, Outcome]:
        plan, result = self.do(Action.SET_CURSOR, NONE, source=source, value=value, **options)
        return plan.operation, result.items[0].outcome


@pytest.fixture
def cursors(tmp_path: Path) -> Iterator[Cursors]:
    with Cursors(tmp_path) as world:
        yield world


@pytest.mark.parametrize("ends", [True, False])
def test_a_set_waits_for_the_lock_and_not_for_ever(cursors: Cursors, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    waits: list[float] = []
    with open(cursors.path / ".cursors.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if ends:
                fcntl.flock(lock, fcntl.LOCK_UN)

        monkeypatch.setattr("spooltop.cursors.operator.sleep", wait)
        [one] = cursors.do(Action.SET_CURSOR, NONE, source="imessage", value=89640)[1].items
    assert (len(waits) == 1) is ends and waits
    assert one.reason == ("" if ends else ".cursors.lock is held by another for 10 s; spooltop locks says by whom")
    assert cursors.read() == {"imessage": 89640 if ends else 89632}


def test_what_cannot_be_written_down_does_not_happen(cursors: Cursors, before_call: Interpose) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before_call("write", fail)
    with pytest.raises(AuditFailed):
        cursors.set("imessage", 89640)
    assert cursors.read() == {"imessage": 89632}


def test_a_value_made_of_what_is_shown_of_a_large_section_is_refused(cursors: Cursors) -> None:
    cursors.cursors(imessage={"cursor": 5, "seen": "x" * 100_000})
    [refusal] = cursors.plan("imessage", {"cursor": 6}).refused
    assert "too large to be shown whole: this would drop 1 field of it" in refusal.reason and refusal.forceable


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"imessage": 1} x'])
def test_what_does_not_parse_is_left_alone(cursors: Cursors, content: str) -> None:
    with cursors.control() as control:
        plan = control.plan(Action.SET_CURSOR, NONE, options={"source": "imessage", "value": 2})
        cursors.file.write_text(content)
        assert control.apply(plan).items[0].outcome is Outcome.SKIPPED
    [refusal] = cursors.plan("imessage", 2).refused
    assert "does not read" in refusal.reason and not refusal.forceable and cursors.file.read_text() == content


def test_what_force_added_is_not_taken_back_and_a_file_without_sources_says_so(cursors: Cursors) -> None:
    operation, _ = cursors.set("imesage", 2, force=True)
    assert cursors.read() == {"imessage": 89632, "imesage": 2}
    assert "no section before" in cursors.undo(operation)[0].refused[0].reason
    cursors.file.write_text("{}")
    assert cursors.plan("imessage", 2).refused[0].reason == f"{cursors.file} has no imessage; it has none"


def test_a_source_with_a_file_of_its_own_and_one_in_two_files(cursors: Cursors) -> None:
    cursors.file.unlink()
    cursors.write("cursors/teams.json", "7")
    with pytest.raises(UsageError, match="no source signal"):
        cursors.plan("signal", 1)
    assert cursors.set("teams", 8)[1] is Outcome.DONE and cursors.read("cursors/teams.json") == 8
    cursors.cursors(teams=1)
    for options, words in (({}, "stands in"), ({"file": "/etc/passwd"}, "no cursor file here")):
        with pytest.raises(UsageError, match=words):
            cursors.plan("teams", 9, **options)
    cursors.set("teams", 9, file=str(cursors.path / "cursors/teams.json"))
    assert (cursors.read(), cursors.read("cursors/teams.json")) == ({"teams": 1}, 9)


def linked_file(file: Path, elsewhere: Path) -> None:
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def linked_folder(file: Path, elsewhere: Path) -> None:
    file.parent.rename(elsewhere)
    file.parent.symlink_to(elsewhere)


def another_folder(file: Path, elsewhere: Path) -> None:
    file.parent.rename(elsewhere)
    file.parent.mkdir()
    file.write_text("7")


@pytest.mark.parametrize("swap", [linked_file, linked_folder, another_folder])
def test_nothing_that_was_put_in_its_place_leads_a_set_elsewhere(
    cursors: Cursors, tmp_path: Path, swap: Callable[[Path, Path], None]
) -> None:
    file = cursors.write("cursors/teams.json", "7")
    with cursors.control() as control:
        plan = control.plan(Action.SET_CURSOR, NONE, options={"source": "teams", "value": 8})
        swap(file, tmp_path / "elsewhere")
        try:
            assert control.apply(plan).items[0].outcome is not Outcome.DONE
        except SpooltopError as error:
            assert "cursors" in str(error)
    assert file.read_text() == "7" and file.is_symlink() is (swap is linked_file)


def test_a_forged_journal_leads_nowhere(cursors: Cursors, tmp_path: Path) -> None:
    operation, _ = cursors.set("imessage", 2)
    victim = tmp_path / "cursors.json"
    victim.write_text('{"imessage": 2}')
    journal = cursors.path / ".spooltop/cursors.jsonl"
    forged = journal.read_text().replace("\0", "").replace(str(cursors.file), str(victim))
    journal.write_text(forged + '{"schema":1,"line":"intent","operation":"../x"}\n[]\n')
    plan, _ = cursors.undo(operation)
    assert plan.count == 0 and "no cursor file of this target" in plan.refused[0].reason
    assert victim.read_text() == '{"imessage": 2}'
