from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spooltop.backends.directory.operator.planning.destination import requeue_name
from spooltop.backends.journal.log_files import LogFiles
from spooltop.engine import names
from spooltop.errors import Refused, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Verdict

DEAD = Selection(box=Box.CUR, verdict=Verdict.DEAD)


def outcomes(result):
    return [(one.outcome, one.reason) for one in result.items]


def test_claims_of_a_dead_consumer_go_back_with_their_attempt_counted(desk):
    first, second = desk.put(desk.id(1)), desk.put(f"{desk.id(2)},s=imessage,n=2")
    desk.claim_and_die(first, second)
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, DEAD)
    assert [item.row.id for item in plan.items] == [desk.id(1), desk.id(2)]
    assert [item.warning for item in plan.items] == ["", "3 consumers died while processing it"]
    assert plan.confirm is Confirm.SMALL
    assert plan.command == ("spooltop", "requeue", str(desk.path), desk.id(1), desk.id(2))
    result = operations.apply(plan)
    assert outcomes(result) == [(Outcome.DONE, ""), (Outcome.DONE, "")]
    assert desk.names(Box.NEW) == [f"{desk.id(1)},n=1,e=died", f"{desk.id(2)},s=imessage,n=3,e=died"]
    assert desk.names(Box.CUR) == []
    assert result.undo == ("spooltop", "undo", str(desk.path), plan.operation)


def test_a_claim_at_the_limit_of_attempts_is_rejected_instead_and_the_plan_says_so(desk):
    last, before = desk.put(f"{desk.id(1)},n=9"), desk.put(f"{desk.id(2)},n=8")
    desk.claim_and_die(last, before)
    claims = desk.names(Box.CUR)
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, DEAD)
    why = "rejected instead: 10 attempts, the limit is 10"
    assert [item.warning for item in plan.items] == [why, "9 consumers died while processing it"]
    assert any(note.startswith("1 rejected instead of requeued") for note in plan.notes)
    assert outcomes(operations.apply(plan)) == [(Outcome.DONE, why), (Outcome.DONE, "")]
    assert (desk.names(Box.NEW), desk.names(Box.REJECTED)) == ([f"{desk.id(2)},n=9,e=died"], [claims[0]])
    undone = operations.apply(operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation}))
    assert (undone.count(Outcome.DONE), desk.names(Box.CUR)) == (2, claims)


def test_what_was_rejected_at_the_limit_tells_why_and_a_requeue_from_there_counts_anew(desk):
    desk.claim_and_die(desk.put(f"{desk.id(1)},n=9"))
    operations = desk.operations()
    operations.apply(operations.plan(Action.REQUEUE, DEAD))
    redrive = operations.plan(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
    assert redrive.items[0].row.reason == "rejected instead: 10 attempts, the limit is 10, by ann"
    assert operations.apply(redrive).count(Outcome.DONE) == 1
    assert desk.names(Box.NEW) == [desk.id(1)]


def test_force_does_not_lift_the_limit_and_foreign_claims_have_none(desk):
    desk.claim(desk.put(f"{desk.id(1)},n=9"))
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(box=Box.CUR, ids=(desk.id(1),)), force=True)
    assert plan.items[0].warning.endswith("the limit is 10; taken from a running consumer, whose ack will fail with ClaimLost")
    assert operations.apply(plan).count(Outcome.DONE) == 1
    assert (len(desk.names(Box.REJECTED)), desk.names(Box.NEW)) == (1, [])
    desk.put("1795220920443125.9155.vm:2,P4242", box=Box.CUR)
    foreign = operations.plan(Action.REQUEUE, Selection(ids=("1795220920443125.9155.vm",)))
    assert [item.warning for item in foreign.items] == [""]


def test_a_living_consumer_is_refused_and_only_force_takes_its_claim(desk):
    desk.claim(desk.put(desk.id(1)))
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    assert plan.items == []
    assert [refusal.forceable for refusal in plan.refused] == [True]
    assert plan.refused[0].reason.endswith("holds its presence lock")
    forced = operations.plan(Action.REQUEUE, Selection(everything=True), force=True)
    assert forced.confirm is Confirm.NUMBER
    assert any("ClaimLost" in note for note in forced.notes)
    assert operations.apply(forced).count(Outcome.DONE) == 1
    assert desk.names(Box.NEW) == [f"{desk.id(1)},n=1,e=died"]


def test_the_lock_is_tested_again_just_before_the_move(desk):
    consumer, [claim] = desk.claim(desk.put(desk.id(1)))
    operations = desk.operations()
    forced = operations.plan(Action.REQUEUE, Selection(everything=True), force=True)
    unforced = operations.plan(Action.REQUEUE, Selection(everything=True))
    stale = replace(unforced, items=forced.items)
    assert [one.outcome for one in operations.apply(stale).items] == [Outcome.SKIPPED]
    assert desk.names(Box.CUR) == [claim]
    desk.kill(consumer)
    again = operations.plan(Action.REQUEUE, DEAD)
    assert operations.apply(again).count(Outcome.DONE) == 1


def test_a_foreign_claim_goes_back_under_its_very_name(desk, real_spools):
    desk.path = real_spools / "seed_maildirqueue"
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(ids=("1795220920443125.9155.vm",)))
    assert plan.confirm is Confirm.NUMBER
    assert any("not proof" in note for note in plan.notes)
    assert operations.apply(plan).count(Outcome.DONE) == 1
    assert "1795220920443125.9155.vm" in desk.names(Box.NEW)
    assert desk.names(Box.CUR) == []


def test_foreign_evidence_that_changed_since_keeps_the_claim_where_it_is(desk):
    desk.put("job:2,P4242", box=Box.CUR)
    desk.verdicts["job:2,P4242"] = Verdict.DEAD
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, DEAD)
    desk.verdicts["job:2,P4242"] = Verdict.ALIVE
    assert operations.apply(plan).items[0].outcome is Outcome.SKIPPED
    assert desk.names(Box.CUR) == ["job:2,P4242"]


HOSTILE = [
    "[red]x[@click=app.quit]y",
    "\x1b[31mred\x1b[0m", "two\nlines", os.fsdecode(b"not utf-8 \xff\xfe"), "2026-11-21T02:41:09.json", "-rf", "ALL",
    "a" * 246, "x,c=nothing", "back\\slash", "‮evil", "x:2,S",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=escape)
def test_no_foreign_name_is_changed_by_a_requeue(desk, name):
    claim = desk.put(f"{name}:2,P4242", box=Box.CUR)
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(ids=(name,)))
    assert operations.apply(plan).count(Outcome.DONE) == 1
    assert desk.names(Box.NEW) == [name]
    undone = operations.apply(operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation}))
    assert undone.count(Outcome.DONE) == 1
    assert desk.names(Box.CUR) == [claim]


def test_a_name_of_255_bytes_without_a_tail_goes_as_it_is(desk):
    name = desk.put("b" * 255, box=Box.CUR)
    operations = desk.operations()
    assert operations.apply(operations.plan(Action.REQUEUE, Selection(everything=True))).count(Outcome.DONE) == 1
    assert desk.names(Box.NEW) == [name]


@pytest.mark.parametrize(
    ("claim", "waiting"),
    [
        ("1795220920443125.9155.vm:2,P4242", "1795220920443125.9155.vm"),
        ("1795220920443125.9155.vm:P4242", "1795220920443125.9155.vm"),
        ("order,n=0,c=" + "a" * 32 + ".1795222800000000:2,P7", "order,n=1,e=died"),
        ("mail:2,S", "mail:2,S"),
        ("no tail", "no tail"),
        ("late,n=3,t=1795222800000000,c=" + "a" * 32 + ".1795222800000000:2,P7", "late,n=4,e=died"),
        ("late,n=3,e=exit-1,c=" + "a" * 32 + ".1795222800000000:2,P7", "late,n=4,e=died"),
    ],
)
def test_what_a_claim_is_called_in_new(claim, waiting):
    assert requeue_name(names.parse(claim, claimed=True)) == waiting


def test_nothing_is_replaced_in_new(desk):
    desk.put("job:2,P4242", "the claim", box=Box.CUR)
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    desk.put("job", "put meanwhile")
    result = operations.apply(plan)
    assert result.items[0].outcome is Outcome.FAILED
    assert desk.census() == {"the claim": ["cur/job:2,P4242"], "put meanwhile": ["new/job"]}
    again = operations.plan(Action.REQUEUE, Selection(everything=True))
    assert again.items == []
    assert "conflict" in again.refused[0].reason


def test_two_claims_under_one_id_are_both_kept(desk):
    desk.put("job:2,P1", "one", box=Box.CUR)
    desk.put("job:P2", "two", box=Box.CUR)
    plan = desk.operations().plan(Action.REQUEUE, Selection(everything=True))
    assert plan.items == []
    assert ["conflict" in refusal.reason for refusal in plan.refused] == [True, True]


def test_what_is_no_plain_message_is_refused_with_the_reason(desk):
    cur = desk.path / "cur"
    os.mkfifo(cur / "fifo")
    (cur / "link").symlink_to("/etc/passwd")
    (cur / "dir").mkdir()
    desk.put("two names", box=Box.CUR)
    os.link(cur / "two names", desk.path / "elsewhere")
    plan = desk.operations().plan(Action.REQUEUE, Selection(everything=True))
    assert plan.items == []
    assert sorted(refusal.reason for refusal in plan.refused) == [
        "a directory, not a message",
        "a fifo, not a message",
        "a symbolic link, not a message",
        "has another hard link",
    ]


def test_a_box_that_was_swapped_since_the_plan_is_left_alone(desk, tmp_path):
    desk.put("a:2,P1", box=Box.CUR)
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    os.rename(desk.path / "cur", tmp_path / "taken away")
    (desk.path / "cur").mkdir()
    os.link(tmp_path / "taken away" / "a:2,P1", desk.path / "cur" / "a:2,P1")
    os.unlink(tmp_path / "taken away" / "a:2,P1")
    assert operations.apply(plan).items[0].outcome is Outcome.SKIPPED
    assert desk.names(Box.NEW) == []


@pytest.mark.parametrize("box", ["new", "cur", ".spooltop"])
def test_a_link_in_place_of_a_directory_leads_nowhere(desk, tmp_path, box):
    desk.put("a:2,P1", box=Box.CUR)
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    precious = tmp_path / "precious"
    precious.mkdir()
    if (desk.path / box).exists():
        os.rename(desk.path / box, tmp_path / "taken away")
    (desk.path / box).symlink_to(precious)
    with pytest.raises(Refused):
        operations.apply(plan)
    assert os.listdir(precious) == []


def test_a_selection_that_names_nothing_selects_nothing(desk):
    desk.put("a:2,P1", box=Box.CUR)
    plan = desk.operations().plan(Action.REQUEUE, Selection())
    assert (plan.items, plan.refused, plan.confirm) == ((), (), Confirm.NOTHING)


def orphaned(desk, *ids, at=1795222800.0, pid=None):
    """Claims of a consumer without a presence file, made ``at`` so many epoch seconds by the process ``pid``, else this one."""
    token = "0123456789abcdef" * 2
    return [
        desk.put(names.in_cur(id, token, int(at * 1e6) + us, pid or os.getpid()), box=Box.CUR) for us, id in enumerate(ids)
    ]


def test_an_unknown_claim_whose_pid_runs_here_wants_force(desk):
    claims = orphaned(desk, "one,n=0", "two,n=0", at=time.time())
    other = desk.put(names.in_cur("three,n=0", "f" * 32, int(time.time() * 1e6), 4_194_303), box=Box.CUR)  # nobody has that pid
    operations = desk.operations(clock=time.time)
    plan = operations.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True))
    assert [item.row.name for item in plan.items] == [other]
    assert [(one.row.name, one.forceable) for one in plan.refused] == [(claim, True) for claim in claims]
    assert all(
        re.fullmatch(rf"pid {os.getpid()} \(.+\) is running here and may be its holder: its presence file is missing", one.reason)
        for one in plan.refused
    )
    forced = operations.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True), force=True)
    assert operations.apply(forced).count(Outcome.DONE) == 3
    assert desk.names(Box.NEW) == ["one,n=1,e=died", "three,n=1,e=died", "two,n=1,e=died"]


def test_a_pid_that_was_given_to_another_process_since_is_not_the_holder(desk):
    [claim] = orphaned(desk, "one,n=0")
    plan = desk.operations().plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True))
    assert [item.row.name for item in plan.items] == [claim] and not plan.refused


def test_selections_hold_together(desk):
    for name in ("a,s=mail,n=0:2,P1", "b,s=mail,n=0:2,P2", "c,s=chat,n=0:2,P1"):
        desk.put(name, box=Box.CUR)
        desk.verdicts[name] = Verdict.DEAD
    desk.verdicts["b,s=mail,n=0:2,P2"] = Verdict.UNKNOWN
    operations = desk.operations()

    def chosen(selection):
        return [item.row.id for item in operations.plan(Action.REQUEUE, selection).items]

    assert chosen(Selection(source="mail")) == ["a", "b"]
    assert chosen(Selection(source="mail", verdict=Verdict.DEAD)) == ["a"]
    assert chosen(Selection(filter="src:chat")) == ["c"]
    assert chosen(Selection(keys=(("cur", "b,s=mail,n=0:2,P2"),))) == ["b"]
    assert chosen(Selection(older_than=1e12)) == []
    assert chosen(Selection(everything=True, source="chat")) == ["c"]
    with pytest.raises(UsageError):
        chosen(Selection(filter="age:>never"))


def test_without_renameat2_the_move_is_link_and_unlink(desk):
    class Old(LogFiles):
        def rename_noreplace(self, name, dir_fd, to, to_fd):
            raise OSError(22, "Invalid argument")

    desk.put("a:2,P1", "one", box=Box.CUR)
    operations = desk.operations(Old())
    assert operations.apply(operations.plan(Action.REQUEUE, Selection(everything=True))).count(Outcome.DONE) == 1
    assert desk.census() == {"one": ["new/a"]}


def test_a_half_finished_move_is_repaired_at_the_first_change(desk):
    waiting = desk.put(desk.id(1), "one")
    [claim] = desk.claim_and_die(waiting)
    os.link(desk.path / "cur" / claim, desk.path / "new" / f"{desk.id(1)},n=1")
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, DEAD)
    assert len(plan.items) == 1
    assert desk.names(Box.CUR) == [claim]  # a plan changes nothing
    assert operations.apply(plan).count(Outcome.DONE) == 1
    assert desk.names(Box.CUR) == []
    assert desk.names(Box.NEW) == [f"{desk.id(1)},n=1"]


def test_a_move_that_another_operator_made_meanwhile_is_not_taken_for_our_own(desk):
    desk.claim_and_die(desk.put(desk.id(1)))
    quicker = desk.operations()
    yours = quicker.plan(Action.REQUEUE, DEAD)
    theirs = []

    class Late(LogFiles):
        def rename_noreplace(self, name, dir_fd, to, to_fd):
            if name.startswith(desk.id(1)):
                theirs.append(quicker.apply(yours))
            super().rename_noreplace(name, dir_fd, to, to_fd)

    late = desk.operations(Late())
    [mine] = late.apply(late.plan(Action.REQUEUE, DEAD)).items
    assert theirs[0].count(Outcome.DONE) == 1
    assert (mine.outcome, mine.reason) == (Outcome.SKIPPED, "acknowledged or moved meanwhile")
    assert desk.names(Box.NEW) == [f"{desk.id(1)},n=1,e=died"]


def test_a_rate_waits_between_batches(desk):
    for number in range(5):
        desk.put(f"{number}:2,P1", box=Box.CUR)
    waited: list[float] = []
    operations = desk.operations(wait=waited.append)
    progress: list[int] = []
    plan = operations.plan(Action.REQUEUE, Selection(everything=True), options={"rate": 2})
    operations.apply(plan, on_progress=progress.append)
    assert progress == [2, 4, 5]
    assert sum(waited) == pytest.approx(2.0)


def test_a_mail_folder_is_refused_below_the_views(desk, real_spools: Path):
    desk.path = real_spools / "maildir_stdlib"
    before = desk.census()
    for action in (Action.REQUEUE, Action.PURGE, Action.INJECT, Action.UNDO):
        with pytest.raises(Refused, match="mail folder"):
            desk.operations().plan(action, Selection(everything=True, box=Box.CUR))
    assert desk.census() == before
    assert not (desk.path / ".spooltop").exists()


def test_read_only_refuses_a_plan_that_was_made_before(desk):
    desk.put("a:2,P1", box=Box.CUR)
    plan = desk.operations().plan(Action.REQUEUE, Selection(everything=True))
    with pytest.raises(Refused, match="opened with --read-only"):
        desk.operations(read_only="opened with --read-only").apply(plan)
    assert desk.names(Box.CUR) == ["a:2,P1"]


class NoSyncs(LogFiles):
    """Syncs of a folder of what is held fail."""

    def sync_dir(self, fd):
        if "/held/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EIO, "Input/output error")
        super().sync_dir(fd)


@pytest.mark.parametrize("count", [1, 5])
def test_what_was_moved_and_may_not_last_is_no_success(desk, count):
    for number in range(1, count + 1):
        desk.put(desk.id(number))
    operations = desk.operations(NoSyncs())
    result = operations.apply(operations.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
    assert [one.outcome for one in result.items] == [Outcome.FAILED] * count
    assert all(one.reason.startswith("moved, but a power failure may undo the move") for one in result.items)
    assert len(desk.names(Box.HELD)) == count


def test_a_holder_that_is_no_longer_known_to_be_gone_keeps_its_claim(desk):
    """Dead when it was planned; without its presence file nobody can tell any more."""
    [claim] = desk.claim_and_die(desk.put(desk.id(1)))
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    assert len(plan.items) == 1
    for presence in (desk.path / ".spooltop" / "consumers").iterdir():
        presence.unlink()
    (result,) = operations.apply(plan).items
    assert (result.outcome, result.reason) == (
        Outcome.SKIPPED, "its holder may be running: its presence file is missing",
    )  # fmt: skip
    assert desk.names(Box.CUR) == [claim]
