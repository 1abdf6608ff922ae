"""Commands that a server gets from every view, list and operation: none of them holds it up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from redis import Redis

from spooltop.control import Control, open_control
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.protocols import FIRST_SORT, ListQuery, Sort
from spooltop.model.vocabulary import Action, Box, Json
from spooltop.targets import find_targets
from tests.scratch import own_state

from .conftest import NAMES

CLAIMS, WAITING = 1_300, 1_200
ID = re.compile(r"\(?[0-9]+-[0-9]+\Z")
NEVER = {"KEYS", "MONITOR", "SMEMBERS", "HGETALL", "HKEYS", "HVALS", "SORT", "FLUSHALL", "CONFIG", "XAUTOCLAIM"}
AT_ONCE, PAGE = 100, 1_000
"""Items that a command asks for: one by one, and where a whole list is gone through."""

Heard = Callable[[], list[list[str]]]


@pytest.fixture
def heard(socket: str) -> Iterator[Heard]:
    """The commands that the server got since the last call, those of scripts too, in words."""
    with Redis(unix_socket_path=socket) as client, Redis(unix_socket_path=socket) as other, other.monitor() as monitor:

        def commands() -> list[list[str]]:
            client.echo("the end")
            sent: list[list[str]] = []
            while "the end" not in (command := monitor.next_command()["command"]):
                sent.append(command.split(" "))
            return sent

        yield commands


@pytest.fixture
def control(jobs: Any, url: str) -> Iterator[Control]:
    """The dashboard's control of a group with many claims of three consumers, and a second group that began in the middle."""
    pipe = jobs.pipeline(transaction=False)
    for number in range(CLAIMS + WAITING):
        pipe.xadd("jobs", {"data": b"%d" % number, "source": f"s{number % 3}"})
    ids = pipe.execute()
    for name, count in (("alive", 50), ("bob", 200), ("eve", CLAIMS - 250)):
        jobs.xreadgroup("work", name, {"jobs": ">"}, count=count)
    jobs.set(NAMES.lease("alive"), "1")
    jobs.hset(NAMES.consumers, "alive", "far 1")
    jobs.xgroup_create("jobs", "late", ids[100])
    with open_control(url, settings=own_state()) as made:
        yield made


def counts(words: Sequence[str]) -> list[int]:
    """Numbers of items that a command asks for."""
    upper = [word.upper() for word in words]
    if upper[0] == "XPENDING":
        return [int(upper[5])] if len(upper) > 3 else []
    return [int(words[at + 1]) for at, word in enumerate(upper[:-1]) if word == "COUNT"] if upper[0] != "EVAL" else []


def check(sent: Sequence[Sequence[str]], most: int) -> None:
    """Checks that nothing holds the server up, and nothing asks for more than ``most`` items."""
    assert sent
    for words in sent:
        name = words[0].upper()
        assert name not in NEVER, words
        if name.startswith("EVAL") or name == "PTTL":
            assert sum(ID.match(word) is not None for word in words) <= AT_ONCE, words
            continue
        assert name != "XPENDING" or "IDLE" not in map(str.upper, words), words
        assert name != "XINFO" or "FULL" not in map(str.upper, words), words
        assert name not in ("XRANGE", "XREVRANGE") or counts(words) or words[2] == words[3], words
        assert all(count <= most for count in counts(words)), words


def test_looks_ask_for_little(control: Control, heard: Heard, socket: str) -> None:
    heard()
    for _ in range(3):
        control.look()
    control.changes(0.0)
    control.consumers()
    check(heard(), AT_ONCE)
    with open_control(f"unix://{socket}#jobs/late", watch=False, settings=own_state()) as late:  # the server knows no lag of it
        heard()
        assert late.look().observation.boxes[Box.NEW].count == CLAIMS + WAITING - 101
        check(heard(), PAGE)
    assert len(find_targets([f"unix://{socket}#j*"])) == 2
    sent = heard()
    check(sent, PAGE)
    assert "SCAN" in [words[0].upper() for words in sent]


def test_lists_ask_for_what_is_shown(control: Control, heard: Heard) -> None:
    control.look()
    for box in (Box.NEW, Box.CUR):
        for sort in (FIRST_SORT.get(box, Sort()), Sort("age", True), Sort("age", False)):
            heard()
            listing = control.listing(ListQuery(box, sort=sort))
            for start in (0, len(listing) // 2, len(listing) - 50):
                rows = listing.window(start, start + 50)
                assert len(rows) == 50 and listing.find(rows[7].key) == start + 7
                control.read(rows[0].key)
                control.follow([row.id for row in rows], 0.0)
                control.holders(rows[0].key)
            check(heard(), PAGE)
    for filter in ("src:s1", "holder:bob", "tries:>0"):
        for box in Box:
            control.listing(ListQuery(box, filter=filter)).window(0, 50)
    listing = control.listing(ListQuery(Box.CUR, selection=Selection(box=Box.CUR, source="s1")))
    assert len(listing) == sum(number % 3 == 1 for number in range(CLAIMS)) == len(list(listing.keys()))
    check(heard(), PAGE)


def test_a_message_that_is_named_is_not_searched_for(control: Control, heard: Heard) -> None:
    control.look()
    for box in (Box.NEW, Box.CUR):
        rows = control.listing(ListQuery(box, sort=FIRST_SORT.get(box, Sort()))).window(700, 702)
        heard()
        for selection in (Selection(keys=tuple(row.key for row in rows)), Selection(box=box, ids=(rows[0].id,))):
            plan = control.plan(Action.PURGE, selection, force=True)
            assert len(plan.items) + len(plan.refused) == len(selection.keys or selection.ids or ())
        check(heard(), AT_ONCE)


def test_operations_change_a_hundred_at_once_at_most(jobs: Any, control: Control, heard: Heard) -> None:
    jobs.xgroup_destroy("jobs", "late")

    def done(action: Action, box: Box | None = None, **options: Json) -> str:
        result = control.apply(control.plan(action, Selection(box=box, everything=True), force=True, options=options))
        # On a machine that stands still for 50 ms a claim looks as if it had been taken meanwhile.
        assert result.count(Outcome.DONE) > 0 == result.count(Outcome.FAILED), result
        control.look()
        check(heard(), PAGE)
        return result.operation

    for action, box in ((Action.REQUEUE, Box.CUR), (Action.HOLD, Box.CUR), (Action.HOLD, Box.NEW), (Action.PURGE, Box.NEW)):
        done(Action.UNDO, undoes=done(action, box))
    for action, box in (
        (Action.HOLD, Box.NEW), (Action.RELEASE, None), (Action.PURGE, Box.NEW), (Action.RESTORE, Box.TRASH),
        (Action.PURGE, Box.NEW), (Action.EMPTY, Box.TRASH), (Action.PAUSE, None), (Action.RESUME, None),
    ):  # fmt: skip
        done(action, box)
    done(Action.INJECT, count=250, text="hello {n}", source="me")
    done(Action.SET_CURSOR, source="work", value="0")
    assert control.operations() and not heard()
