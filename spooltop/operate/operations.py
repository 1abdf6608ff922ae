"""Common path of every change: plan, apply, result.

The Operator defines the items and moves them. This module defines, for every kind of spool, the confirmation, the audit and the
end of an operation.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from spooltop.errors import NoSuchOperation, Refused, SpooltopError, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.look.observation import Observation
from spooltop.model.operations.chunked import CHUNK, Chunked, Column, column_of, expand, pack
from spooltop.model.operations.plan import (
    Item,
    ItemResult,
    NotDone,
    OperationRecord,
    Outcome,
    Plan,
    Progress,
    Result,
    verdicts_of,
)
from spooltop.model.operations.results import AuditLine, AuditTrail, Results, columns_of_results
from spooltop.model.protocols import Operator
from spooltop.model.redact import Redactor
from spooltop.model.target import full_name
from spooltop.model.text import escape
from spooltop.model.units import age, duration
from spooltop.model.vocabulary import Action, Json, Verdict

from .actor import Actor
from .audit_log import OperationAudit, trail_of
from .confirm import confirm_for
from .defaults import with_defaults
from .inject_file import with_file
from .shell_command import command_words, undo_words
from .syslog import to_syslog

# Words for what a plan will do: the first sentence before a plan is confirmed, for every kind of queue.

_WHAT = {
    Action.REQUEUE: ("moves back to new with the same id; claimed next.",
                     "move back to new with the same ids, oldest first; claimed next."),
    Action.PURGE: ("moves to the trash.", "move to the trash."),
    Action.HOLD: ("is set aside into held, where no consumer takes it, until released.",
                  "are set aside into held, where no consumer takes them, until released."),
    Action.RELEASE: ("moves back to new with the same id.", "move back to new with the same ids."),
    Action.RESTORE: ("moves back to the box it came from; a claim moves to new.",
                     "move back to the boxes they came from; claims move to new."),
    Action.EMPTY: ("is deleted permanently.", "are deleted permanently."),
}  # fmt: skip

_WHATEVER = {
    Action.INJECT: "Test messages are put into new; running consumers claim them.",
    Action.UNDO: "Each message moves back to the box it was in, unless it was changed since.",
    Action.SET_CURSOR: "The value is set in its own section; nothing else in the file changes.",
    Action.UNLOCK: "Locks of exited holders are removed; undo restores them where the path is free.",
    Action.PAUSE: "Pauses the spool: consumers of spooltop claim nothing until it is resumed. Claims that are held end as usual; "
    "messages are still put.",
    Action.RESUME: "Resumes the spool: consumers claim again, the oldest message first.",
}

_UNDONE = {
    Action.INJECT: "Each waiting test message moves to the trash.",
    Action.SET_CURSOR: "The earlier value is set again, unless it was written since.",
    Action.UNLOCK: "The lock file is restored, if its path is free.",
    Action.PAUSE: "The spool is resumed, unless it was resumed or paused again since.",
    Action.RESUME: "The spool is paused again, with who paused it, when and why.",
}


def poison_words(plan: Plan) -> str:
    """``hold 1, requeue 3``: messages whose consumers died too often are held."""
    left = plan.count - plan.poison
    return f"hold {plan.poison:,}, requeue {left:,}" if left else f"hold {plan.poison:,}"


def holds_poison(plan: Plan) -> bool:
    return bool(plan.options.get("hold_poison")) and plan.poison > 0


def effect_of(plan: Plan) -> str:
    """Returns the effect on the messages, in a sentence: the operator's own, else the one that its boxes have anywhere."""
    if plan.effect:
        return plan.effect
    if plan.action is Action.UNDO and plan.undone in _UNDONE:
        return _UNDONE[plan.undone]
    if plan.action in _WHATEVER:
        return _WHATEVER[plan.action]
    if holds_poison(plan):
        held = "1 is" if plan.poison == 1 else f"{plan.poison:,} are"
        left = plan.count - plan.poison
        goes = f"; the other {left:,} {'moves' if left == 1 else 'move'} back to new, claimed next" if left else ""
        it = "it" if plan.poison == 1 else "them"
        return f"{held} set aside into held, where no consumer takes {it}, until released{goes}."
    one, many = _WHAT[Action.EMPTY if plan.options.get("now") else plan.action]
    return f"It {one}" if plan.count == 1 else f"They {many}"


# Outcomes of the items so far, packed, so that a million moved messages are not a million objects in memory.

class PackedResults(Chunked[ItemResult]):
    """Results in the order of their items."""

    def __init__(self) -> None:
        super().__init__()
        self.not_done = NotDone()
        self.reasons: Counter[str] = Counter()
        """Remarks on items that are done, with the number of items for each."""

    def add(self, batch: Sequence[ItemResult]) -> None:
        """Adds a batch; items that can be computed again are not kept."""
        _, _, outcomes, reasons, _ = columns_of_results(batch)
        self.not_done.note(len(self), outcomes, reasons)
        if any(reasons):
            self.reasons.update(
                [reason for reason, outcome in zip(reasons, outcomes, strict=True) if reason and outcome is Outcome.DONE]
            )
        if isinstance(batch, Results) and batch.again is not None and len(batch) == CHUNK and not self._open:
            self._chunks.append(batch.again)
            return
        self._open = [*self._open, *batch]
        while len(self._open) >= CHUNK:
            whole, self._open = self._open[:CHUNK], self._open[CHUNK:]
            self._chunks.append(_packed(whole))

    def unpacked(self, packed: list[Column]) -> list[ItemResult]:
        ids, names, outcomes, reasons, became = (expand(column, CHUNK) for column in packed)
        return list(map(ItemResult, ids, names, map(_OUTCOME.__getitem__, outcomes), reasons, became))


def _packed(chunk: Sequence[ItemResult]) -> bytes:
    ids, names, outcomes, reasons, became = columns_of_results(chunk)
    return pack([column_of(values) for values in (ids, names, [one.value for one in outcomes], reasons, became)])


_OUTCOME = {outcome.value: outcome for outcome in Outcome}


# Note about the consumers that would take requeued or released messages; the last line of such a plan.

RECENT = 60.0
"""Seconds after a claim during which a consumer of which there is no other sign may still be running."""
_NAMED_AT_MOST = 3


def at_work(observation: Observation, now: float, last_claim_at: float | None = None) -> str:
    """Builds the note: ``At work now: 1 consumer (5201), last claim 4s ago.`` ``now`` and ``last_claim_at`` (from an observer
    that has watched for longer) are epoch seconds. Consumers that are visible only by their claims count while they hold one."""
    claimed = max((at for at in (observation.last_claim_at, last_claim_at) if at is not None), default=None)
    last = "" if claimed is None else f", last claim {age(max(0.0, now - claimed))} ago"
    living = [row.owner for row in observation.claims if row.verdict is Verdict.ALIVE and row.owner is not None]
    processes = list(dict.fromkeys((one.host, one.pid or one.name) for one in living if one.pid or one.name))
    count = max(observation.consumers or 0, len(processes))
    if count:
        pids = ", ".join(str(pid) for _, pid in processes)
        named = f" ({escape(pids)})" if processes and len(processes) == count <= _NAMED_AT_MOST else ""
        return f"At work now: {count:,} {'consumer' if count == 1 else 'consumers'}{named}{last or ', last claim not known'}."
    if claimed is not None and now - claimed <= RECENT:
        return f"Nobody is seen at work now{last}."
    return f"Nobody is at work now{last}: they will wait in new."


_UNPROVEN = (Verdict.UNKNOWN, Verdict.ALIVE, Verdict.WRITING)
_ASKS_WHEN_FORCED = (Action.RESTORE, Action.SET_CURSOR)
"""Actions whose items have no holder: force does what is likely a slip."""
_UNDOABLE = (
    Action.REQUEUE, Action.PURGE, Action.INJECT, Action.HOLD, Action.RELEASE, Action.RESTORE, Action.UNDO, Action.SET_CURSOR,
    Action.UNLOCK, Action.PAUSE, Action.RESUME,
)  # fmt: skip


_MOST_REASONS = 5
_PUTS_BACK = (Action.REQUEUE, Action.RELEASE)


def _new_operation() -> str:
    return os.urandom(5).hex()


class Operations:
    """Plans and applies changes to a target. ``target`` is its name as it is shown, ``flags`` are the options that a command
    needs to open it (``--as spool``); ``clock`` returns epoch seconds. ``copies`` receives a copy of each audit line without its
    items (syslog lines are limited in length). ``at_work`` returns a sentence about the consumers that would take messages moved
    to ``new``. ``retention``: seconds after which the content of the trash has expired, 0: never. ``redactor`` hides values in
    commands, records and the audit log."""

    def __init__(
        self,
        operator: Operator,
        target: str,
        clock: Callable[[], float] = time.time,
        who: Actor | None = None,
        new_operation: Callable[[], str] = _new_operation,
        *,
        flags: Sequence[str] = (),
        syslog: Callable[[str], None] = to_syslog,
        copies: Callable[[str], None] | None = None,
        at_work: Callable[[], str] | None = None,
        retention: float = 0.0,
        redactor: Redactor | None = None,
    ) -> None:
        self._operator = operator
        self._target = target
        self._path = full_name(target)
        """Name for commands, which may be typed in any directory."""
        self._clock = clock
        self._who = who
        self._new_operation = new_operation
        self._flags = tuple(flags)
        self._syslog = syslog
        self._copies = copies
        self._at_work = at_work
        self._retention = retention
        self._redactor = redactor or Redactor()

    def plan(
        self,
        action: Action,
        selection: Selection,
        force: bool = False,
        options: Mapping[str, Json] | None = None,
        *,
        on_progress: Callable[[str], object] | None = None,
        on_first: Callable[[Sequence[Item]], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Plan:
        """Pins the items of ``selection`` and changes nothing. Options: undo ``undoes`` (the id of an operation or its
        beginning); inject ``count``, ``text`` (see ``model.template``) or ``file`` or ``size`` (bytes), ``source``, ``canary``;
        requeue ``hold_poison`` (holds messages at which so many consumers died that they may be the cause, and requeues the
        others); pause ``reason``; purge ``now`` (deletes without the trash); all ``rate`` (items per second).

        ``on_progress`` receives descriptions of the progress, ``on_first`` the first items where there are many; ``stop`` returns
        True to cancel, and is called every few hundred messages.

        Raises ``Refused`` if the action is not available here, ``UsageError`` if the selection or the options are invalid,
        ``Stopped``.
        """
        progress = Progress(stop, on_progress, on_first)
        progress.check()
        self._allowed(action)
        chosen: dict[str, Json] = dict(options or {})
        if action is Action.INJECT:
            chosen = with_file(chosen)
            count = chosen.setdefault("count", 1)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise UsageError(f"inject: invalid count {count!r}", advice="give --count 1 or more")
        undone: Action | None = None
        if action is Action.UNDO:
            chosen["undoes"], undone = self._which(str(chosen.get("undoes") or ""), progress)
        selection = with_defaults(action, selection)
        now = self._clock()
        found = self._operator.candidates(action, selection, force=force, options=chosen, now=now, progress=progress)
        progress.check()
        notes = found.notes
        if chosen.get("rate") and found.items and found.items[0].words:
            raise UsageError(f"{action}: a rate limit applies to messages only", advice="leave --rate out")
        if self._at_work is not None and action in _PUTS_BACK and found.items:
            notes = (*notes, self._at_work())
        if self._retention and action is Action.PURGE and found.items and not chosen.get("now"):
            notes = (*notes, f"The trash keeps messages for {duration(self._retention)}, then offers to delete them.")
        plan = Plan(
            operation=self._new_operation(),
            action=action,
            target=self._target,
            made_at=now,
            selection=selection,
            items=found.items,
            refused=found.refused,
            notes=notes,
            force=force,
            command=command_words(
                action, self._path, selection, found.items, options=self._shown(chosen), flags=self._flags
            ),
            options=chosen,
            missing=found.missing,
            poison=found.poison,
            undone=undone,
            effect=found.effect,
            has_no_undo=found.has_no_undo,
        )
        # An undo hands nothing to anybody: what was claimed becomes the claim of the same holder again.
        verdicts = {} if action is Action.UNDO else verdicts_of(found.items)
        unproven = sum(many for verdict, many in verdicts.items() if verdict in _UNPROVEN)
        uncertain = plan.deletes or unproven > 0 or (force and action in _ASKS_WHEN_FORCED)
        return replace(plan, confirm=confirm_for(plan.count, uncertain=uncertain), unproven=unproven)

    def with_rate(self, plan: Plan, rate: float | None) -> Plan:
        """Returns the plan with a limit of ``rate`` items per second; None: no limit."""
        options = {name: value for name, value in plan.options.items() if name != "rate"}
        if rate is not None:
            options["rate"] = rate
        command = command_words(
            plan.action, self._path, plan.selection, plan.items, options=self._shown(options), flags=self._flags
        )
        return replace(plan, options=options, command=command)

    def apply(
        self,
        plan: Plan,
        on_progress: Callable[[int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Result:
        """Applies the plan. Each item is re-checked just before it is changed, however old the plan is.

        Raises ``Refused`` and ``AuditFailed`` before anything is changed. A later error ends the operation and is reported in
        ``Result.notes``.
        """
        self._allowed(plan.action)
        done = PackedResults()
        stopped = False
        options = self._shown(plan.options)
        audit = OperationAudit(
            plan, self._operator.perform(plan, stop or (lambda: False)), self._operator, options=options, who=self._who,
            clock=self._clock, syslog=self._syslog, copies=self._copies,
        )  # fmt: skip
        notes = audit.notes
        try:
            with audit:
                for batch in audit:
                    done.add(batch)
                    if on_progress is not None:
                        on_progress(len(done))
        except SpooltopError as error:
            if not done:
                raise
            stopped = True
            notes.append(f"ended early: {error}")
        if plan.missing:
            why = "not found when the plan was made"
            done.add([ItemResult(missing, missing, Outcome.SKIPPED, why) for missing in plan.missing])
        if not plan.works_when_full:
            notes += [f"{many} of those done: {reason}" for reason, many in done.reasons.most_common(_MOST_REASONS)]
        can_undo = plan.action in _UNDOABLE and not plan.deletes and not plan.has_no_undo and len(done) > done.not_done.total
        if plan.works_when_full and done.reasons:
            can_undo = False  # done without a line in the journal
        untried = max(0, plan.count - (len(done) - len(plan.missing)))
        return Result(
            operation=plan.operation,
            action=plan.action,
            target=plan.target,
            finished_at=self._clock(),
            items=done.as_list(),
            stopped=stopped or untried > 0,
            untried=untried,
            undo=undo_words(self._path, plan.operation, self._flags) if can_undo else (),
            notes=tuple(notes),
        )

    def records(
        self, stop: Callable[[], bool] | None = None, *, begins: str = "", most: int | None = None
    ) -> list[OperationRecord]:
        """Returns the operations on this target whose id ``begins`` so, newest first, ``most`` of them. Raises ``Stopped`` if
        ``stop`` returns True."""
        return self._operator.operations(Progress(stop), begins=begins, most=most)

    def audited(self, operation: str) -> AuditTrail:
        """Returns the audit trail of ``operation``, a complete id. Raises ``Unreadable``."""
        trail = trail_of(self._operator.audit_logs(operation), operation)
        if not self._redactor:
            return trail
        text = self._redactor.text  # also in lines that were written before the setting was made

        def hidden(line: AuditLine) -> AuditLine:
            results = tuple(one._replace(reason=text(one.reason)) for one in line.results)
            return replace(line, names=tuple(map(text, line.names)), results=results)

        return replace(trail, lines=tuple(map(hidden, trail.lines)))

    def close(self) -> None:
        self._operator.close()

    def _shown(self, options: Mapping[str, Json]) -> Mapping[str, Json]:
        """Returns ``options`` as they may be shown and logged."""
        source = options.get("source")
        hidden = dict(options)
        if isinstance(text := options.get("text"), str):
            hidden["text"] = self._redactor.text(text)
        for name in {"value", "highest"} & set(options):
            hidden[name] = self._redactor.section(source if isinstance(source, str) else "", options[name])
        return hidden

    def _allowed(self, action: Action) -> None:
        reason = self._operator.why_not(action)
        if reason is not None:
            raise Refused(f"{action}: {reason}", path=self._target)

    def _which(self, asked: str, progress: Progress) -> tuple[str, Action]:
        """Returns the only operation whose id begins with ``asked``, and its action."""
        if not asked:
            raise UsageError("undo: which operation?", advice="spooltop ops lists them")
        found = {record.operation: record.action for record in self._operator.operations(progress, begins=asked)}
        if asked in found:
            return asked, found[asked]
        if len(found) == 1:
            return next(iter(found.items()))
        if found:
            raise UsageError(f"undo: {escape(asked)} begins {len(found)} operations", advice="give more of the id")
        raise NoSuchOperation(f"undo: no operation {escape(asked)} in the journal", advice="spooltop ops lists them")
