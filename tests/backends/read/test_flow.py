"""Arrivals and departures, tied to ids: nothing is counted twice, and a message that goes back has not arrived."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from spooltop.control import Control
from spooltop.model.plan import Selection
from spooltop.model.snapshot import Flow
from spooltop.model.vocabulary import Action

from .conftest import Opened
from .table import see, see_until

TOKEN = "ab" * 16
ID = "1795220920443125.P9R0123456789abcdef.vm"
NEW = f"new/{ID},s=email"
CUR = f"cur/{ID},s=email,c={TOKEN}.1795220925443125:2,P7"
AGAIN = f"{NEW},n=1"
LATER = f"cur/{ID},s=email,n=1,c={TOKEN}.1795220926443125:2,P7"
CANARY, CANARY_CUR = f"{NEW},x=1", f"cur/{ID},s=email,x=1,c={TOKEN}.5:2,P7"
PLAIN, PLAIN_CUR = "new/plain", "cur/plain:2,P4242"
HELD = f".spooltop/held/7f3a/{ID},s=email"
LAST = "new/1795220927443125.P9Rfedcba9876543210.vm,s=last"
LOOK = "a look"


def flows_of(spool: Path, control: Control, at: str, steps: Sequence[str]) -> list[Flow]:
    """Moves one message from place to place, "" for nowhere; returns what is counted at each ``LOOK``, and after another message
    has arrived, which alone comes last, at two looks more: nothing is done before it stayed away for a look."""
    flows = []
    for to in (*steps, LAST, LOOK):
        if to == LOOK:
            flows.append(control.look().observation.flow)
        elif to == LAST or not at:
            (spool / to).touch()
        elif to:
            (spool / at).rename(spool / to)
        else:
            (spool / at).unlink()
        at = at if to == LOOK else to
    while not any(flow.arrived_by_source.get("last") for flow in flows):
        control.changes(0.1)
        flows.append(control.look().observation.flow)
    return [*flows, *(control.look().observation.flow for _ in range(2))]


@pytest.mark.parametrize("with_looks", [False, True])
@pytest.mark.parametrize(
    ("before", "steps", "counts", "by_holder"),
    [
        ("", [NEW], (1, 0, 0, 0), {}),
        ("", [NEW, ""], (1, 0, 0, 0), {}),
        ("", [NEW, CUR], (1, 1, 0, 0), {}),
        ("", [NEW, CUR, ""], (1, 1, 0, 1), {TOKEN: (1, 0)}),
        ("", [PLAIN, PLAIN_CUR, ""], (1, 1, 0, 1), {"P4242": (1, 0)}),
        ("", [CANARY, CANARY_CUR, ""], (0, 0, 0, 0), {}),
        ("", [PLAIN, PLAIN_CUR, PLAIN], (1, 1, 1, 0), {}),
        (NEW, [CUR, ""], (0, 1, 0, 1), {TOKEN: (1, 0)}),
        (CUR, [AGAIN], (0, 0, 1, 0), {}),  # given back, to be taken at once
        (CUR, [AGAIN, LATER], (0, 1, 1, 0), {}),
        (CUR, [f"{AGAIN},e=died"], (0, 0, 1, 0), {}),
        (CUR, [f"{AGAIN},e=exit-1"], (0, 0, 1, 0), {TOKEN: (0, 1)}),
        (CUR, [f"{AGAIN},t=1795220999000000"], (0, 0, 1, 0), {TOKEN: (0, 1)}),
        (CUR, [HELD], (0, 0, 0, 0), {TOKEN: (0, 1)}),
    ],
)
def test_counts_of_the_spool_and_of_each_consumer(
    spool: Path, opened: Opened, before: str, steps: list[str], with_looks: bool,
    counts: tuple[int, int, int, int], by_holder: dict[str, tuple[int, int]],
) -> None:  # fmt: skip
    (spool / HELD).parent.mkdir(parents=True)
    if before:
        (spool / before).touch()
    control = opened(spool, watch=True)
    see_until(control, lambda observation: observation.flow.exact and observation.flow.measured)
    looked = [part for step in steps for part in (step, LOOK)] if with_looks else steps
    flows = flows_of(spool, control, before, looked)
    arrived, *rest = (sum(getattr(flow, name) for flow in flows) for name in ("arrived", "claimed", "retried", "done"))
    assert (arrived - 1, *rest) == counts and all(flow.exact for flow in flows)
    ended = [(holder, one.done, one.failed) for flow in flows for holder, one in flow.by_holder.items() if one.done or one.failed]
    assert {holder: (done, failed) for holder, done, failed in ended} == by_holder and len(ended) == len(by_holder)


def test_without_events_flow_is_a_lower_bound_and_what_comes_back_has_not_arrived(spool: Path, opened: Opened) -> None:
    control = opened(spool)
    (spool / HELD).parent.mkdir(parents=True)
    (spool / HELD).touch()
    assert not control.look().observation.flow.measured
    (spool / PLAIN).touch()
    (spool / HELD).rename(spool / NEW)
    flow = see(control).flow
    assert (flow.measured, flow.exact, flow.arrived) == (True, False, 1)
    (spool / PLAIN).rename(spool / PLAIN_CUR)
    assert see(control).flow.claimed == 1
    (spool / PLAIN_CUR).unlink()
    assert [see(control).flow.done for _ in range(3)] == [0, 1, 0]


def test_a_passage_has_its_times_and_source(spool: Path, opened: Opened) -> None:
    control = opened(spool, watch=True)
    see_until(control, lambda observation: observation.flow.exact and observation.flow.measured)
    flows = flows_of(spool, control, "", [NEW, LOOK, CUR, LOOK, ""])
    assert sum(flow.arrived_by_source.get("email", 0) for flow in flows) == 1
    (passage,) = (passage for flow in flows for passage in flow.completions)
    assert (passage.put_at, passage.claimed_at) == (1_795_220_920.443125, 1_795_220_925.443125)
    assert flows[0].since < passage.gone_at <= flows[-1].until


def test_attempts_count_also_where_an_operator_took_the_claim_before_from_a_foreign_consumer(spool: Path, opened: Opened) -> None:
    (spool / f"cur/{ID},s=email:2,P4242").touch()
    control = opened(spool)
    control.look()
    control.apply(control.plan(Action.REQUEUE, Selection(ids=(ID,)), force=True))
    [waiting] = (spool / "new").iterdir()
    waiting.rename(spool / f"{NEW},n=2,e=exit-1")
    flow = see(control).flow
    assert (flow.requeued, flow.retried) == (0, 2)
