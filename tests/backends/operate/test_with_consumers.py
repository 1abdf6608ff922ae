"""Operators against real consumers of the engine."""

from __future__ import annotations

import threading

from spooltop.engine import Spool
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome, Result
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.builders import SpoolWorld

DEAD = Selection(box=Box.CUR, verdict=Verdict.DEAD)


def test_two_operators_and_a_recovering_consumer_take_no_claim_twice(world: SpoolWorld) -> None:
    with Spool(world.path) as spool, world.control() as one, world.control() as two:
        ids = {spool.put(b"%d" % number) for number in range(60)}
        world.claim_dead(60)
        plans = [(control, control.plan(Action.REQUEUE, DEAD)) for control in (one, two)]
        results: list[Result] = []
        threads = [threading.Thread(target=lambda who=who, plan=plan: results.append(who.apply(plan))) for who, plan in plans]
        for thread in threads:
            thread.start()
        recovered = spool.recover()
        for thread in threads:
            thread.join()
        done = [item.id for result in results for item in result.items if item.outcome is Outcome.DONE]
        assert len(done) == len(set(done)) and {*done, *recovered} == ids
        assert [(result.count(Outcome.FAILED), len(result.items)) for result in results] == [(0, 60)] * 2
        assert sorted(claim.id for claim in iter(spool.claim, None) if claim.ack() is None) == sorted(ids)
