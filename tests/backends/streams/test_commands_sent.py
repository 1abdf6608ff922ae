"""Commands that a server gets from every view, list and operation: none of them holds it up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from redis import Redis

from spooltop.backends.redis.stream_names import StreamNames
from spooltop.control import Control, open_control
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome, Result
from spooltop.model.protocols import FIRST_SORT, Listing, ListQuery, Sort
from spooltop.model.vocabulary import Action, Box, Json
from spooltop.targets import find_targets
from tests.scratch import own_state

_CLAIMS = 1_300
_WAITING = 1_200
_ID = re.compile(r"\(?[0-9]+-[0-9]+\Z")
_NEVER = {"KEYS", "MONITOR", "SMEMBERS", "HGETALL", "HKEYS", "HVALS", "SORT", "FLUSHALL", "CONFIG", "XAUTOCLAIM"}
_AT_ONCE = 100
"""Items that a command asks for."""
_PAGE = 1_000
"""Items of a page, where a whole list is gone through."""

Heard = Callable[[], list[list[str]]]


@pytest.fixture
def heard(socket: str) -> Iterator[Heard]:
    """The commands that the server got since the last call, those of scripts too, in words."""
    with Redis(unix_socket_path=socket) as client, Redis(unix_socket_path=socket) as other, other.monitor() as monitor:

        def commands() -> list[list[str]]:
            client.echo("the end")
            found: list[list[str]] = []
            while "the end" not in (command := monitor.next_command()["command"]):
                found.append(command.split(" "))
            return found

        yield commands


@pytest.fixture
def control(jobs: Any, socket: str) -> Iterator[Control]:
    """The dashboard's control of a group with many claims of three consumers, and a second group that began in the middle."""
    pipe = jobs.pipeline(transaction=False)
    for number in range(_CLAIMS + _WAITING):
        pipe.xadd("jobs", {"data": b"%d" % number, "source": f"s{number % 3}"})
    ids = pipe.execute()
    for name, count in (("alive", 50), ("bob", 200), ("eve", _CLAIMS - 250)):
        jobs.xreadgroup("work", name, {"jobs": ">"}, count=count)
    names = StreamNames("jobs", "work")
    jobs.set(names.lease("alive"), "1")
    jobs.hset(names.consumers, "alive", "far 1")
    jobs.xgroup_create("jobs", "late", ids[100])
    with open_control(f"unix://{socket}#jobs/work", settings=own_state()) as made:
        yield made


def _counts(words: Sequence[str]) -> list[int]:
    """Numbers of items that a command asks for."""
    upper = [word.upper() for word in words]
    if upper[0] == "XPENDING":
        return [int(upper[5])] if len(upper) > 3 else []
    return [int(words[at + 1]) for at, word in enumerate(upper[:-1]) if word == "COUNT"] if upper[0] != "EVAL" else []


def _check(sent: Sequence[Sequence[str]], most: int) -> None:
    """Nothing here holds the server up, and nothing asks for more than ``most`` items."""
    assert sent
    for words in sent:
        name = words[0].upper()
        assert name not in _NEVER, words
        if name.startswith("EVAL"):
            assert sum(_ID.match(word) is not None for word in words) <= _AT_ONCE, words
            continue
        assert name != "XPENDING" or "IDLE" not in map(str.upper, words), words
        assert name != "XINFO" or "FULL" not in map(str.upper, words), words
        assert name not in ("XRANGE", "XREVRANGE") or _counts(words) or words[2] == words[3], words
        assert all(count <= most for count in _counts(words)), words
        assert name == "PTTL" or sum(_ID.match(word) is not None for word in words) <= _AT_ONCE, words


def test_looks_ask_for_little(control: Control, heard: Heard, socket: str) -> None:
    heard()
    for _ in range(3):
        control.look()
    control.changes(0.0)
    control.consumers()
    _check(heard(), _AT_ONCE)


def test_a_group_without_a_lag_is_counted_in_pages(control: Control, heard: Heard, socket: str) -> None:
    with open_control(f"unix://{socket}#jobs/late", watch=False, settings=own_state()) as late:
        heard()
        assert late.look().observation.boxes[Box.NEW].count == _CLAIMS + _WAITING - 101
    sent = heard()
    _check(sent, _PAGE)
    assert any(words[0].upper() == "XRANGE" and max(_counts(words)) > 100 for words in sent)


def test_lists_ask_for_what_is_shown(control: Control, heard: Heard) -> None:
    control.look()
    for box in (Box.NEW, Box.CUR):
        for sort in (FIRST_SORT.get(box, Sort()), Sort("age", True), Sort("age", False)):
            heard()
            found = control.listing(ListQuery(box, sort=sort))
            _look_through(control, found)
            _check(heard(), _PAGE)
    for filter in ("src:s1", "holder:bob", "tries:>0"):
        for box in Box:
            found = control.listing(ListQuery(box, filter=filter))
            found.window(0, 50)
    found = control.listing(ListQuery(Box.CUR, selection=Selection(box=Box.CUR, source="s1")))
    assert len(found) == sum(number % 3 == 1 for number in range(_CLAIMS))
    assert len(list(found.keys())) == len(found)
    _check(heard(), _PAGE)


def _look_through(control: Control, found: Listing) -> None:
    assert len(found) in (_CLAIMS, _WAITING)
    for start in (0, len(found) // 2, len(found) - 50):
        rows = found.window(start, start + 50)
        assert len(rows) == 50 and found.find(rows[7].key) == start + 7
        control.read(rows[0].key)
        control.follow([row.id for row in rows], 0.0)
        if rows[0].box is Box.CUR:
            control.holders(rows[0].key)


def test_operations_change_a_hundred_at_once_at_most(jobs: Any, control: Control, heard: Heard) -> None:
    jobs.xgroup_destroy("jobs", "late")

    def done(action: Action, box: Box | None = None, **options: Json) -> Result:
        plan = control.plan(action, Selection(box=box, everything=True), force=True, options=options)
        result = control.apply(plan)
        # On a machine that stands still for 50 ms a claim looks as if it had been taken meanwhile.
        assert result.count(Outcome.DONE) > 0 == result.count(Outcome.FAILED), result
        control.look()
        _check(heard(), _PAGE)
        return result

    for action, box in ((Action.REQUEUE, Box.CUR), (Action.HOLD, Box.CUR), (Action.HOLD, Box.NEW), (Action.PURGE, Box.NEW)):
        done(Action.UNDO, undoes=done(action, box).operation)
    done(Action.HOLD, Box.NEW)
    done(Action.RELEASE)
    done(Action.PURGE, Box.NEW)
    done(Action.RESTORE, Box.TRASH)
    done(Action.PURGE, Box.NEW)
    done(Action.EMPTY, Box.TRASH)
    done(Action.INJECT, count=250, text="hello {n}", source="me")
    done(Action.PAUSE, reason="a change")
    done(Action.RESUME)
    done(Action.SET_CURSOR, source="work", value="0")
    assert control.operations() and not heard()


def test_a_message_that_is_named_is_not_searched_for(control: Control, heard: Heard) -> None:
    control.look()
    for box in (Box.NEW, Box.CUR):
        rows = control.listing(ListQuery(box, sort=FIRST_SORT.get(box, Sort()))).window(700, 702)
        heard()
        for selection in (Selection(keys=tuple(row.key for row in rows)), Selection(box=box, ids=(rows[0].id,))):
            plan = control.plan(Action.PURGE, selection, force=True)
            assert len(plan.items) + len(plan.refused) == len(selection.keys or selection.ids or ())
        _check(heard(), _AT_ONCE)


def test_streams_are_searched_in_steps(control: Control, heard: Heard, socket: str) -> None:
    heard()
    assert len(find_targets([f"unix://{socket}#j*"])) == 2
    sent = heard()
    _check(sent, _PAGE)
    assert any(words[0].upper() == "SCAN" for words in sent)
