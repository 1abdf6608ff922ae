"""Pausing a spool and resuming it: one file, who made it, and its way back."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.access import user_name
from spooltop.backends.directory.operator.permission import can_change
from spooltop.backends.directory.pausing.consumers import pause_notes, resume_notes
from spooltop.backends.directory.pausing.operator import PauseOperator
from spooltop.backends.directory.world import World
from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.journal.log_store import SpoolPathLogs
from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import AuditFailed, Refused, Unreadable, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.look.observation import Observation
from spooltop.model.look.pause import REASON_AT_MOST, Pause
from spooltop.model.operations.plan import Confirm, Outcome, Plan, Result
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Owner, Verdict
from spooltop.operate.operations import Operations
from tests.clock import NOW, Clock
from tests.needs import needs

needs_root = needs("root")


class PauseDesk:
    """A spool and its control, at a clock that stands still."""

    def __init__(self, path: Path) -> None:
        Spool.create(path, durable=False).close()
        self.path = path
        self.clock = Clock()
        self.control = open_control(str(path), watch=False, clock=self.clock, settings={})
        self.file = path / ".spooltop/paused"

    def plan(self, action: Action, **options: Any) -> Plan:
        return self.control.plan(action, Selection(), options=options)

    def do(self, action: Action, **options: Any) -> Result:
        self.clock.advance(1)
        return self.control.apply(self.plan(action, **options))

    @property
    def paused(self) -> Pause | None:
        with Spool(self.path) as spool:
            return spool.paused


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[PauseDesk]:
    desk = PauseDesk(tmp_path / "spool")
    yield desk
    desk.control.close()


def test_it_is_paused_and_resumed_under_the_name_of_who_did_it(desk: PauseDesk) -> None:
    plan = desk.plan(Action.PAUSE, reason="a schema change")
    assert (plan.count, plan.confirm) == (1, Confirm.SMALL) and desk.paused is None
    assert plan.command == ("spooltop", "pause", str(desk.path), "--reason", "a schema change")
    desk.clock.advance(60)
    done = desk.control.apply(plan)
    assert done.count(Outcome.DONE) == 1 and done.undo == ("spooltop", "undo", str(desk.path), done.operation)
    found = desk.paused
    assert found is not None and found.at == NOW + 60 and found.reason == "a schema change" and found.by
    assert [path.name for path in desk.file.parent.iterdir() if path.name.startswith(".")] == []
    desk.clock.advance(7200)
    plan = desk.plan(Action.RESUME)
    assert plan.items[0].words == f"Consumers claim messages again. Paused by {found.by} for 2h: a schema change"
    assert plan.command == ("spooltop", "resume", str(desk.path))
    assert desk.control.apply(plan).count(Outcome.DONE) == 1 and desk.paused is None


def test_twice_is_refused_and_says_who_was_first(desk: PauseDesk) -> None:
    refused = desk.plan(Action.RESUME)
    assert refused.count == 0 and [one.reason for one in refused.refused] == ["it is not paused"]
    desk.do(Action.PAUSE, reason="one")
    desk.clock.advance(600)
    again = desk.plan(Action.PAUSE, reason="two")
    by = desk.paused.by if desk.paused else None
    assert again.count == 0 and [one.reason for one in again.refused] == [f"it is paused already, by {by} for 10m: one"]


def test_the_list_of_operations_says_who_and_why(desk: PauseDesk) -> None:
    desk.do(Action.PAUSE, reason="x\x1by")
    desk.do(Action.RESUME)
    by = desk.control.operations()[0].user
    assert [record.words for record in desk.control.operations()] == [
        f"resumed; it was paused by {by}: x\\x1by", f"paused by {by}: x\\x1by"
    ]  # fmt: skip
    trail = desk.control.audit(desk.control.operations()[1].operation)
    assert [line.event for line in trail.lines] == ["before", "after"]


def test_a_long_reason_and_one_that_is_no_text_are_refused(desk: PauseDesk) -> None:
    for reason in ("r" * (REASON_AT_MOST + 1), 7):
        with pytest.raises(UsageError, match="more than 200 characters"):
            desk.plan(Action.PAUSE, reason=reason)
    desk.do(Action.PAUSE, reason="🙂" * REASON_AT_MOST)
    assert desk.paused is not None and desk.paused.reason == "🙂" * REASON_AT_MOST


def test_what_anybody_wrote_is_resumed_too_but_a_directory_is_not(desk: PauseDesk) -> None:
    desk.file.parent.mkdir()
    desk.file.write_text("{")
    os.utime(desk.file, (NOW - 600, NOW - 600))
    assert desk.plan(Action.RESUME).items[0].words == "Consumers claim messages again. Paused for 10m"
    resumed = desk.do(Action.RESUME)
    assert desk.paused is None
    desk.do(Action.UNDO, undoes=resumed.operation)
    assert desk.paused == Pause(None, NOW - 600)
    desk.file.unlink()
    desk.file.symlink_to("/nowhere")
    desk.do(Action.RESUME)
    assert not desk.file.is_symlink()
    desk.file.mkdir()
    with pytest.raises(Unreadable, match="paused is a directory"):
        desk.plan(Action.RESUME)


def test_nothing_is_paused_where_only_looking_is_allowed(desk: PauseDesk) -> None:
    with open_control(str(desk.path), read_only=True, watch=False, settings={}) as control:
        for action in (Action.PAUSE, Action.RESUME):
            with pytest.raises(Refused, match="read-only"):
                control.plan(action, Selection())


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o1777])
def test_the_file_has_owner_group_and_mode_of_the_boxes(tmp_path: Path, mode: int) -> None:
    desk = PauseDesk(tmp_path / "spool")
    for box in ("tmp", "new", "cur"):
        (desk.path / box).chmod(mode)
        if os.geteuid() == 0:
            os.chown(desk.path / box, 4242, 4343)
    desk.do(Action.PAUSE)
    found, cur = desk.file.stat(), (desk.path / "cur").stat()
    assert (found.st_uid, found.st_gid) == (cur.st_uid, cur.st_gid)
    assert stat.S_IMODE(found.st_mode) == mode & 0o666
    desk.control.close()


@needs_root
def test_a_user_without_the_right_is_told_whose_it_is() -> None:
    def why(uid: int) -> list[str | None]:
        with SpoolDirs(desk.path) as dirs:
            os.seteuid(uid)
            try:
                return [can_change(dirs).why_not(action) for action in (Action.PAUSE, Action.RESUME)]
            finally:
                os.seteuid(0)

    with tempfile.TemporaryDirectory(dir="/tmp") as above:
        os.chmod(above, 0o755)
        desk = PauseDesk(Path(above, "spool"))
        for box in ("tmp", "new", "cur"):
            (desk.path / box).chmod(0o1777)
        desk.do(Action.PAUSE)
        sticky = ".spooltop is sticky, so that only its owner removes the files of others"
        advice = f"Try: sudo -u root spooltop {desk.path}"
        assert why(65534) == [None, f"you are nobody, {sticky}; paused belongs to root 0666. {advice}"]
        os.chown(desk.file, 65534, -1)
        assert why(65534) == [None, None]
        (desk.path / ".spooltop").chmod(0o755)
        assert why(65534) == [f"you are nobody, .spooltop belongs to root 0755. {advice}"] * 2
        desk.control.close()


class FullStore(SpoolPathLogs):
    """Logs on a disk that is full once ``full``."""

    full = True
    names: tuple[str, ...] = ("audit.jsonl", "pauses.jsonl")

    def append(self, name: str, line: bytes, **options: Any) -> None:
        if self.full and name in self.names:
            raise AuditFailed(f"{name} cannot be written: No space left on device", full=True)
        super().append(name, line, **options)


@pytest.mark.parametrize("names", [("audit.jsonl",), ("pauses.jsonl",), ("audit.jsonl", "pauses.jsonl")])
def test_on_a_full_disk_a_pause_is_refused_and_a_resume_goes_on(tmp_path: Path, names: tuple[str, ...]) -> None:
    desk = PauseDesk(tmp_path / "spool")
    paused = desk.do(Action.PAUSE, reason="why")
    desk.control.close()
    store = FullStore(str(desk.path), LogFiles(), state_dir=str(tmp_path / "state"))
    store.names = names
    said: list[str] = []
    observation = Observation(str(desk.path), "spool", NOW, True, {})
    operator = PauseOperator(str(desk.path), store, lambda: observation, world=World(clock=desk.clock))
    operations = Operations(operator, str(desk.path), desk.clock, syslog=said.append)
    for action, options in ((Action.RESUME, {}), (Action.UNDO, {"undoes": paused.operation})):
        store.full = True
        result = operations.apply(operations.plan(action, Selection(), options=options))
        assert result.count(Outcome.DONE) == 1 and desk.paused is None
        assert any("No space left on device" in note for note in result.notes) and len(said) >= len(result.notes)
        assert bool(result.undo) is ("pauses.jsonl" not in names)
        with pytest.raises(AuditFailed):
            operations.apply(operations.plan(Action.PAUSE, Selection()))
        assert desk.paused is None
        store.full = False
        if action is Action.RESUME:
            desk.file.write_text(json.dumps({"by": user_name(os.geteuid()), "at": NOW + 1, "reason": "why"}))


# Notes


def claim(name: str, verdict: Verdict, pid: int | None) -> Row:
    owner = None if pid is None else Owner(None, pid)
    return Row(key=name, box=Box.CUR, id=name, name=name, verdict=verdict, owner=owner)


def seen(*claims: Row, consumers: int | None = 0) -> Observation:
    return Observation("/jobs", "spool", NOW, True, {}, claims=claims, consumers=consumers)


OURS = "1795222801446548.P9R0123456789abcdef.vm,c=" + "a" * 32 + ".1795222801446548:2,P"


def test_the_plan_says_which_consumers_obey_and_which_do_not() -> None:
    hold = "hold keeps messages from them: spooltop hold /jobs --box new ALL"
    assert pause_notes(seen(), "/jobs") == (
        "No spooltop consumer is at work now.", f"Consumers that are not spooltop's do not obey. {hold}"
    )  # fmt: skip
    alive = [claim(f"{OURS}{pid}", Verdict.ALIVE, pid) for pid in (51, 52)]
    dead = claim(f"{OURS}53", Verdict.DEAD, 53)
    foreign = [claim(f"m{number}:2,P7{number}", Verdict.ALIVE, 70 + number) for number in range(7)]
    gone = claim("g:2,P99", Verdict.DEAD, 99)
    assert pause_notes(seen(*alive, dead, *foreign, gone, consumers=3), "/jobs") == (
        "At work now: 3 spooltop consumers (pid 51, 52). They finish their current messages, and take no other after 0.25 s.",
        f"Consumers that are not spooltop's do not obey, and are at work now (pid 70, 71, 72, 73, 74 and 2 more). {hold}",
    )
    one, unknown = pause_notes(seen(alive[0], claim("m", Verdict.UNKNOWN, None), consumers=1), "/jobs")
    assert one.startswith("At work now: 1 spooltop consumer (pid 51). It finishes its current message, and takes no other")
    assert "(pid unknown)" in unknown
    assert resume_notes(seen(consumers=2)) == ("2 spooltop consumers are running and claim again within a second.",)
    assert resume_notes(seen(consumers=None))[0].startswith("No spooltop consumer is seen waiting")


def test_a_plan_is_made_where_the_consumers_cannot_be_seen(tmp_path: Path) -> None:
    Spool.create(tmp_path).close()

    def look() -> Observation:
        raise Unreadable("cur: permission denied")

    store = SpoolPathLogs(str(tmp_path), LogFiles(), state_dir=str(tmp_path / "state"))
    plan = Operations(PauseOperator(str(tmp_path), store, look), str(tmp_path), Clock()).plan(Action.PAUSE, Selection())
    assert plan.count == 1 and plan.notes == ("Who is at work now is not visible: cur: permission denied.",)


def test_a_forged_journal_changes_nothing(desk: PauseDesk) -> None:
    desk.do(Action.PAUSE)
    log = desk.path / ".spooltop/pauses.jsonl"
    good = log.read_text()
    for old, new in (('"before":null', '"before":7'), ('"reason":""', '"reason":7'), ('"at":', '"at":-'), ('"pause"', '"purge"')):
        log.write_text(good.replace(old, new))
        assert old in good and desk.control.operations() == []


def test_controls_of_one_spool_see_each_others_pauses(desk: PauseDesk) -> None:
    done = desk.do(Action.PAUSE, reason="why")
    with open_control(str(desk.path), watch=False, settings={}) as other:
        assert isinstance(other, Control)
        [record] = other.operations()
        assert record.operation == done.operation and record.action is Action.PAUSE
