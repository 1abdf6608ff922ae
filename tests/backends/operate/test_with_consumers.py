"""Operators against real consumers of the engine, through the reader that a control gives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box, Verdict

CLAIM_ALL = """
import os, signal, sys
from spooltop.engine import Spool
spool = Spool(sys.argv[1])
held = []
while (claim := spool.claim()) is not None:
    held.append(claim)
os.kill(os.getpid(), signal.SIGKILL)
"""
DEAD = Selection(box=Box.CUR, verdict=Verdict.DEAD)


def consumer_dies_with_all(path):
    ended = subprocess.run([sys.executable, "-c", CLAIM_ALL, str(path)])
    assert ended.returncode == -signal.SIGKILL


@pytest.fixture
def control(desk):
    with open_control(str(desk.path), watch=False) as opened:
        yield opened


def test_two_operators_and_a_recovering_consumer_take_no_claim_twice(desk):
    with Spool(desk.path) as spool:
        ids = {spool.put(b"%d" % number) for number in range(60)}
        consumer_dies_with_all(desk.path)
        with open_control(str(desk.path), watch=False) as one, open_control(str(desk.path), watch=False) as two:
            plans = [(one, one.plan(Action.REQUEUE, DEAD)), (two, two.plan(Action.REQUEUE, DEAD))]
            results = []
            threads = [
                threading.Thread(target=lambda who=who, plan=plan: results.append(who.apply(plan))) for who, plan in plans
            ]
            for thread in threads:
                thread.start()
            recovered = spool.recover()
            for thread in threads:
                thread.join()
        done = [item.id for result in results for item in result.items if item.outcome is Outcome.DONE]
        assert len(done) == len(set(done))
        assert {*done, *recovered} == ids
        assert all(result.count(Outcome.FAILED) == 0 for result in results)
        assert all(len(result.items) == 60 for result in results)
        assert sorted(claim.id for claim in iter(spool.claim, None) if claim.ack() is None) == sorted(ids)


def test_an_abandoned_file_in_tmp_goes_and_an_open_one_stays(desk, control):
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    host = os.uname().nodename
    left = desk.put(f"1795222800000000.P{gone.pid}R{'0' * 16}.{host}", box=Box.TMP)
    mine = desk.put(f"1795222800000001.P{os.getpid()}R{'1' * 16}.{host}", box=Box.TMP)
    with open(desk.path / "tmp" / mine, "ab"):
        plan = control.plan(Action.PURGE, Selection(box=Box.TMP, everything=True))
        taken = {item.row.name: item.row.verdict for item in plan.items}
        assert mine not in taken
        assert taken[left] in (Verdict.ABANDONED, Verdict.UNKNOWN)  # unknown in a container that sees not all processes
        assert control.apply(plan).count(Outcome.DONE) == 1
    assert desk.names(Box.TMP) == [mine]
