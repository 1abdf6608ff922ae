"""Notes of a plan to pause or to resume: the consumers that are at work now, and those that a pause does not stop."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from spooltop.engine.names import parse
from spooltop.engine.pausing import CHECK_EVERY
from spooltop.model.look.observation import Observation
from spooltop.model.row import Row
from spooltop.model.units import count
from spooltop.model.vocabulary import Verdict

__all__ = ["pause_notes", "resume_notes"]

_NAMED_AT_MOST = 5


def pause_notes(observation: Observation, path: str) -> tuple[str, ...]:
    """The notes of a plan to pause the spool at ``path``, as given."""
    ours, others = _claims(observation)
    living = _who(row for row in ours if row.verdict is Verdict.ALIVE)
    many = max(observation.consumers or 0, len(living))
    if many:
        named = f" ({_listed(living)})" if living else ""
        one = many == 1
        at_work = (
            f"At work now: {count(many)} spooltop {'consumer' if one else 'consumers'}{named}. "
            f"{'It finishes its' if one else 'They finish their'} current {'message' if one else 'messages'}, "
            f"and {'takes' if one else 'take'} no other after {CHECK_EVERY:g} s."
        )
    else:
        at_work = "No spooltop consumer is at work now."
    hold = f"hold keeps messages from them: {shlex.join(('spooltop', 'hold', path, '--box', 'new', 'ALL'))}"
    foreign = _who(row for row in others if row.verdict is not Verdict.DEAD)
    if foreign:
        return at_work, f"Consumers that are not spooltop's do not obey, and are at work now ({_listed(foreign)}). {hold}"
    return at_work, f"Consumers that are not spooltop's do not obey. {hold}"


def resume_notes(observation: Observation) -> tuple[str, ...]:
    """The note of a plan to resume."""
    running = observation.consumers or 0
    if not running:
        return ("No spooltop consumer is seen waiting; one that has claimed nothing yet is not visible.",)
    if running == 1:
        return ("1 spooltop consumer is running and claims again within a second.",)
    return (f"{count(running)} spooltop consumers are running and claim again within a second.",)


def _claims(observation: Observation) -> tuple[list[Row], list[Row]]:
    """Claims of spooltop's consumers, and those of others."""
    ours: list[Row] = []
    others: list[Row] = []
    for row in observation.claims:
        (others if parse(row.name, claimed=True).token is None else ours).append(row)
    return ours, others


def _who(rows: Iterable[Row]) -> list[str]:
    """The pids of the holders, each once."""
    pids = dict.fromkeys(row.owner.pid if row.owner is not None else None for row in rows)
    return ["unknown" if pid is None else str(pid) for pid in pids]


def _listed(who: list[str]) -> str:
    more = f" and {count(len(who) - _NAMED_AT_MOST)} more" if len(who) > _NAMED_AT_MOST else ""
    return f"pid {', '.join(who[:_NAMED_AT_MOST])}{more}"
