"""Rules for every kind of spool, with an operator that moves nothing: confirmation, audit, and the end of an operation."""

from __future__ import annotations

import json
import os

import pytest

from spooltop.errors import AuditFailed, Refused, UsageError
from spooltop.model.capabilities import Capabilities
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Candidates, Confirm, Item, ItemResult, OperationRecord, Outcome
from spooltop.model.operations.progress import BATCH
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.actor import Actor
from spooltop.operate.confirm import accepts, confirm_for
from spooltop.operate.defaults import with_defaults
from spooltop.operate.operations import Operations
from spooltop.operate.shell_command import command_words, id_word, shell_lines

WHO = Actor("ann", 1000, 77, sudo_user=None, ssh_connection="192.0.2.1 5 192.0.2.2 22", tty="/dev/pts/3")


def row(number, **more):
    return Row(key=("cur", f"{number}"), box=Box.CUR, id=f"id{number}", name=f"{number}", **{"verdict": Verdict.DEAD, **more})


class FakeOperator:
    def __init__(self, rows=(), capabilities=None, known=()):
        self.rows = list(rows)
        self.refusals = capabilities or Capabilities()
        self.lines = []
        self.full_from = None
        self.full = False
        self.moved = []
        self.fails_in = None
        self.known = list(known)
        self.closed = False
        self.at_once = BATCH
        self.unsynced = 0

    def why_not(self, action):
        return self.refusals.why_not(action)

    def candidates(self, action, selection, *, force, options, now, progress):
        return Candidates([Item(one, one.name) for one in self.rows], missing=("lost",) if selection.ids else ())

    def perform(self, plan, stop=lambda: False):
        for start in range(0, len(plan.items), self.at_once):
            if start == self.fails_in:
                raise AuditFailed("the journal is full")
            batch = []
            for item in plan.items[start : start + self.at_once]:
                if stop():
                    break
                self.moved.append(item.ref)
                batch.append(ItemResult(item.row.id, item.row.name, Outcome.DONE, became=item.row.name))
            yield batch
            if stop():
                return

    def audit(self, line, *, sync=True):
        if self.full_from is not None and len(self.lines) >= self.full_from:
            raise AuditFailed("no space", path="/spool", full=self.full)
        self.lines.append((json.loads(line), len(self.moved)))
        self.unsynced = 0 if sync else self.unsynced + 1

    def operations(self, progress, *, begins="", most=None):
        return [record for record in self.known if record.operation.startswith(begins)][:most]

    def close(self):
        self.closed = True


def operations(fake, **more):
    return Operations(fake, "/spool", lambda: 5.0, WHO, **more)


def test_the_audit_log_tells_which_spool_wherever_it_is_read():
    fake = FakeOperator([row(1)])
    operate = Operations(fake, "spool", lambda: 5.0, WHO)
    plan = operate.plan(Action.REQUEUE, Selection(everything=True))
    operate.apply(plan)
    assert {line["target"] for line, _ in fake.lines} == {os.path.abspath("spool")}
    assert plan.command[2] == os.path.abspath("spool")


def test_each_thousand_is_announced_before_it_is_touched_and_reported_after():
    fake = FakeOperator(row(number) for number in range(2 * BATCH + 1))
    operate = operations(fake)
    result = operate.apply(operate.plan(Action.REQUEUE, Selection(everything=True)))
    assert result.count(Outcome.DONE) == 2 * BATCH + 1
    audited = [(entry["event"], len(entry["ids"]), moved) for entry, moved in fake.lines]
    assert audited == [
        ("before", BATCH, 0), ("after", BATCH, BATCH), ("before", BATCH, BATCH), ("after", BATCH, 2 * BATCH),
        ("before", 1, 2 * BATCH), ("after", 1, 2 * BATCH + 1),
    ]  # fmt: skip


def test_an_audit_line_says_who_did_what_to_which():
    fake = FakeOperator([row(1), Row(key="k", box=Box.CUR, id="\x1b[31m", name="\udcff", verdict=Verdict.DEAD)])
    operate = operations(fake, new_operation=lambda: "abc123")
    operate.apply(operate.plan(Action.REQUEUE, Selection(everything=True)))
    before, after = (entry for entry, _ in fake.lines)
    assert before == {
        "schema": 1, "time": 5.0, "event": "before", "operation": "abc123", "action": "requeue", "target": "/spool",
        "force": False, "user": "ann", "uid": 1000, "sudo_user": None, "ssh_connection": "192.0.2.1 5 192.0.2.2 22",
        "tty": "/dev/pts/3", "pid": 77, "count": 2, "options": {}, "ids": ["id1", "\\x1b[31m"], "names": ["cur/1", "cur/\\xff"],
    }  # fmt: skip
    del before["options"]
    told = {"event": "after", "tried": 2, "names": ["1", "\\xff"], "outcomes": "done", "reasons": ""}
    assert after == {**before, **told}


def test_what_cannot_be_audited_does_not_happen():
    fake = FakeOperator([row(1)])
    fake.full_from = 0
    operate = operations(fake)
    with pytest.raises(AuditFailed):
        operate.apply(operate.plan(Action.REQUEUE, Selection(everything=True)))
    assert fake.moved == []


@pytest.mark.parametrize("full", [True, False])
def test_what_frees_space_goes_on_without_its_audit_line_only_where_space_is_short(full):
    fake = FakeOperator([row(1)])
    fake.full_from, fake.full = 0, full
    operate = operations(fake)
    plan = operate.plan(Action.EMPTY, Selection(everything=True))
    if full:
        assert any("not in the audit log: no space" in note for note in operate.apply(plan).notes)
    else:
        with pytest.raises(AuditFailed):
            operate.apply(plan)
    assert fake.moved == (["1"] if full else [])


@pytest.mark.parametrize(("full_from", "moved"), [(1, BATCH), (2, BATCH), (3, 2 * BATCH)])
def test_an_audit_that_fails_in_between_ends_it_and_the_result_says_what_was_done(full_from, moved):
    fake = FakeOperator(row(number) for number in range(3 * BATCH))
    fake.full_from = full_from
    operate = operations(fake)
    result = operate.apply(operate.plan(Action.REQUEUE, Selection(everything=True)))
    assert (len(fake.moved), len(result.items), result.stopped, result.untried) == (moved, moved, True, 3 * BATCH - moved)
    assert "no space" in result.notes[0]
    assert result.undo


def test_what_was_announced_and_did_not_happen_is_written_down_as_well():
    def audited(fake, **more):
        operate = operations(fake)
        try:
            operate.apply(operate.plan(Action.REQUEUE, Selection(everything=True)), **more)
        except (AuditFailed, KeyError) as error:
            assert fake.fails_in == 0 or isinstance(error, KeyError)
        return [(entry["event"], entry.get("tried"), entry.get("ended", "")) for entry, _ in fake.lines]

    failing = FakeOperator([row(1)])
    failing.fails_in = 0
    assert audited(failing) == [("before", None, ""), ("after", 0, "the journal is full")]

    def break_down(done):
        raise KeyError("in a callback")

    many = FakeOperator(row(number) for number in range(5))
    stops = iter([False, False, True])
    assert audited(many, stop=lambda: next(stops, True)) == [("before", None, ""), ("after", 2, ""), ("after", 2, "stopped")]
    assert audited(FakeOperator()) == [("before", None, ""), ("after", 0, "nothing to do")]
    broken = FakeOperator(row(number) for number in range(BATCH + 1))
    ended = ("after", BATCH, "KeyError('in a callback')")
    assert audited(broken, on_progress=break_down) == [("before", None, ""), ("after", BATCH, ""), ended]


def test_a_journal_that_fails_in_between_ends_it_too():
    fake = FakeOperator(row(number) for number in range(2 * BATCH))
    fake.fails_in = BATCH
    operate = operations(fake)
    result = operate.apply(operate.plan(Action.REQUEUE, Selection(everything=True)))
    assert (len(result.items), result.untried) == (BATCH, BATCH)
    assert "the journal is full" in result.notes[0]


def test_what_is_not_allowed_is_refused_with_its_reason_at_both_doors():
    fake = FakeOperator([row(1)])
    operate = operations(fake)
    plan = operate.plan(Action.REQUEUE, Selection(everything=True))
    fake.refusals = Capabilities.nothing("read-only, by --read-only")
    for step in (lambda: operate.plan(Action.PURGE, Selection(ids=("a",))), lambda: operate.apply(plan)):
        with pytest.raises(Refused, match="read-only, by --read-only"):
            step()
    assert (fake.moved, fake.lines) == ([], [])


def test_progress_and_stop():
    fake = FakeOperator(row(number) for number in range(2 * BATCH))
    operate = operations(fake)
    progress = []
    plan = operate.plan(Action.REQUEUE, Selection(everything=True))
    result = operate.apply(plan, on_progress=progress.append, stop=lambda: len(fake.moved) >= BATCH + 7)
    assert progress == [BATCH, BATCH + 7]
    assert (result.stopped, result.untried) == (True, BATCH - 7)


def test_what_is_missing_does_not_count_as_tried_where_it_was_stopped():
    fake = FakeOperator(row(number) for number in range(5))
    operate = operations(fake)
    result = operate.apply(operate.plan(Action.REQUEUE, Selection(ids=("lost",))), stop=lambda: len(fake.moved) >= 2)
    assert [one.outcome for one in result.items] == [Outcome.DONE, Outcome.DONE, Outcome.SKIPPED]
    assert (result.stopped, result.untried) == (True, 3)


def test_named_and_missing_is_skipped_and_no_item_left_untried():
    operate = operations(FakeOperator([row(1)]))
    result = operate.apply(operate.plan(Action.REQUEUE, Selection(ids=("id1", "lost"))))
    assert [(one.id, one.outcome) for one in result.items] == [("id1", Outcome.DONE), ("lost", Outcome.SKIPPED)]
    assert (result.untried, result.stopped) == (0, False)


@pytest.mark.parametrize(
    ("count", "verdict", "confirm"),
    [
        (0, Verdict.DEAD, Confirm.NOTHING),
        (1, Verdict.DEAD, Confirm.SMALL),
        (9, None, Confirm.SMALL),
        (10, Verdict.DEAD, Confirm.LARGE),
        (99, Verdict.ABANDONED, Confirm.LARGE),
        (100, Verdict.DEAD, Confirm.NUMBER),
        (1, Verdict.UNKNOWN, Confirm.NUMBER),
        (1, Verdict.ALIVE, Confirm.NUMBER),
    ],
)
def test_the_confirmation_grows_with_danger(count, verdict, confirm):
    operate = operations(FakeOperator(row(number, verdict=verdict) for number in range(count)))
    plan = operate.plan(Action.REQUEUE, Selection(everything=True))
    assert plan.confirm is confirm
    answers = {"y": Confirm.SMALL, "Y": Confirm.LARGE, str(count): Confirm.NUMBER}
    for typed, means in answers.items():
        wanted = means is confirm or (typed == "Y" and confirm is Confirm.SMALL)
        assert accepts(plan.confirm, plan.count, typed) is wanted
    assert not accepts(plan.confirm, plan.count, "")
    assert confirm_for(count, uncertain=False) is not Confirm.NUMBER or count >= 100


@pytest.mark.parametrize(
    ("action", "verdicts", "unproven"),
    [
        (Action.REQUEUE, [Verdict.DEAD, Verdict.UNKNOWN, Verdict.ALIVE, None], 2),
        (Action.PURGE, [Verdict.ABANDONED, Verdict.UNKNOWN, Verdict.WRITING], 2),
        (Action.HOLD, [None, None], 0),
        (Action.UNDO, [Verdict.UNKNOWN, Verdict.ALIVE], 0),
    ],
)
def test_a_plan_counts_whose_holder_is_not_known_to_be_gone(action, verdicts, unproven):
    known = [OperationRecord("abc", Action.REQUEUE, 1.0, "ann", 1, 1)]
    operate = operations(FakeOperator([row(number, verdict=verdict) for number, verdict in enumerate(verdicts)], known=known))
    plan = operate.plan(action, Selection(box=Box.CUR, older_than=0.0), force=True, options={"undoes": "abc"})
    assert plan.unproven == unproven


def test_undo_takes_the_beginning_of_an_id_that_is_the_only_one():
    known = [OperationRecord(name, Action.PURGE, 1.0, "ann", 1, 1) for name in ("abc1", "abc2", "b", "bcd")]
    fake = FakeOperator([row(1)], known=known)
    operate = operations(fake)

    def undoes(asked):
        return operate.plan(Action.UNDO, Selection(), options={"undoes": asked}).options["undoes"]

    assert undoes("bc") == "bcd"
    assert undoes("b") == "b"
    for asked in ("abc", "zzz", ""):
        with pytest.raises(UsageError):
            undoes(asked)


def test_defaults_of_a_selection():
    assert with_defaults(Action.REQUEUE, Selection(verdict=Verdict.DEAD)).box is Box.CUR
    assert with_defaults(Action.REQUEUE, Selection(box=Box.HELD)).box is Box.HELD
    assert with_defaults(Action.REQUEUE, Selection()).empty
    assert with_defaults(Action.PURGE, Selection(box=Box.TMP)).older_than == 3600
    assert with_defaults(Action.PURGE, Selection(box=Box.TMP, filter="src:mail")).older_than == 3600
    for untouched in (
        Selection(box=Box.TMP, everything=True), Selection(box=Box.TMP, older_than=60.0), Selection(ids=("a",)),
        Selection(keys=("k",)), Selection(box=Box.TMP, filter="src:mail age:>5m"),
    ):  # fmt: skip
        assert with_defaults(Action.PURGE, untouched) is untouched
    with pytest.raises(UsageError):
        with_defaults(Action.PURGE, Selection(everything=True))


@pytest.mark.parametrize("name", ["ALL", "-", "--force", "-rf", "a b", "\x1b[31m", "back\\slash", "\udcff"])
def test_an_id_as_a_word_is_taken_for_nothing_else_and_comes_back(name):
    from spooltop.model.text import unescape

    word = id_word(name)
    assert word not in ("ALL", "-")
    assert not word.startswith("-")
    assert word.isprintable()
    assert unescape(word) == name


def test_the_command_of_a_plan():
    items = [Item(row(number), None) for number in range(2)]
    whole = Selection(everything=True)

    def words(action, chosen, selection=whole, **more):
        return command_words(action, "/spool", selection, chosen, **{"options": {}, **more})

    assert words(Action.REQUEUE, items) == ("spooltop", "requeue", "/spool", "id0", "id1")
    assert words(Action.PURGE, items[:1]) == ("spooltop", "purge", "/spool", "--box", "cur", "id0")
    same_id = [Item(row(7), None), Item(Row(key="k", box=Box.CUR, id="id7", name="other"), None)]
    assert words(Action.REQUEUE, same_id)[-2:] == ("7", "other")
    assert words(Action.REQUEUE, items * 200)[-1] == "-"
    assert words(Action.UNDO, items, options={"undoes": "abc"}) == ("spooltop", "undo", "/spool", "abc")
    at_most = {"rate": 1200 / 60, "undoes": "abc"}
    assert words(Action.REQUEUE, items[:1], options=at_most)[3:] == ("--rate", "20", "id0")
    assert words(Action.UNDO, items, options=at_most)[3:] == ("abc", "--rate", "20")
    assert words(Action.INJECT, [], options={"count": 2, "text": "a\nb", "canary": True}) == (
        "spooltop", "inject", "/spool", "--count", "2", "--text", "a\\x0ab", "--canary",
    )  # fmt: skip


@pytest.mark.parametrize("action", Action)
def test_no_command_that_is_printed_forces_or_confirms(action):
    known = [OperationRecord("abc", Action.REQUEUE, 1.0, "ann", 1, 1)]
    operate = operations(FakeOperator([row(1, verdict=Verdict.ALIVE)], known=known))
    options = {"undoes": "abc", "source": "imessage", "value": 7, "hold_poison": True, "copy": True, "now": True}
    plan = operate.plan(action, Selection(box=Box.CUR, older_than=0.0), force=True, options=options)
    slow = operate.with_rate(plan, 5.0)
    words = [*plan.command, *slow.command, *shell_lines(plan), *operate.apply(plan).undo]
    assert words and not [word for word in words if "--force" in word or "--yes" in word]


def test_a_plan_is_paced_without_another_look():
    fake = FakeOperator([row(1), row(2)])
    operate = operations(fake)
    plan = operate.plan(Action.REQUEUE, Selection(everything=True), options={"hold_poison": True})
    fake.rows = []
    slow = operate.with_rate(plan, 0.5)
    assert (slow.rate, slow.command[3:]) == (0.5, ("--hold-poison", "--rate", "0.5", "id1", "id2"))
    assert operate.with_rate(slow, None) == plan


def test_close_closes_the_operator():
    fake = FakeOperator()
    operations(fake).close()
    assert fake.closed


@pytest.mark.parametrize("at_once", [300, 16, 999, BATCH])
def test_nothing_is_moved_before_the_line_that_announces_it(at_once):
    operator = FakeOperator([row(number) for number in range(2 * BATCH + 500)])
    operator.at_once = at_once
    operations = Operations(operator, "/spool", lambda: 7.0)
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    seen = []

    def progress(done):
        announced = sum(len(line["ids"]) for line, _ in operator.lines if line["event"] == "before")
        seen.append(announced - done)

    operations.apply(plan, on_progress=progress)
    befores = [(line, moved) for line, moved in operator.lines if line["event"] == "before"]
    announced = 0
    for line, moved in befores:
        assert moved <= announced
        announced += len(line["ids"])
    ids = [name for line, _ in befores for name in line["ids"]]
    assert ids == [item.id for item in plan.items]
    assert min(seen) >= 0
    for place, (line, moved) in enumerate(operator.lines):
        before = sum(len(one["ids"]) for one, _ in operator.lines[: place + 1] if one["event"] == "before")
        assert moved <= before, line["event"]
    assert operator.unsynced == 0


def test_a_line_that_waits_for_the_sync_of_the_next_is_synced_where_there_comes_none():
    operator = FakeOperator([row(number) for number in range(2 * BATCH)])
    operations = Operations(operator, "/spool", lambda: 7.0)
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    result = operations.apply(plan, stop=lambda: len(operator.moved) >= BATCH)
    assert result.untried == BATCH
    assert operator.unsynced == 0


def test_what_is_no_message_is_not_done_at_a_rate():
    class Locks(FakeOperator):
        def candidates(self, *args, **more):
            return Candidates([Item(row(1), "1", words="x.lock goes")])

    with pytest.raises(UsageError, match="a rate limit applies to messages only"):
        Operations(Locks(), "/spool", lambda: 7.0).plan(Action.UNLOCK, Selection(everything=True), options={"rate": 2.0})
