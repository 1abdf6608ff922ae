"""The steps of a message between two looks, and their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spooltop.model.operations.tracked import TrackedMessage
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict
from spooltop.tui.draw.elements.spans import line_text
from spooltop.tui.draw.follow import follow_lines
from spooltop.tui.threads.messages import MessagesTracked
from spooltop.tui.tracking.timeline import Timeline

from .fake import claim, written

T = 1_000.0


class Recorder:
    """A timeline of one id that gets one look after another."""

    def __init__(self) -> None:
        self.timeline = Timeline(["m"])
        self.at = T

    def look(self, *, row: Row | None = None, **facts: Any) -> list[str]:
        """The text of the steps that this look added."""
        self.at += 1
        before = len(self.timeline.steps)
        self.timeline.take(MessagesTracked(self.at, {"m": TrackedMessage("m", **facts)}), {} if row is None else {"m": row})
        return [step.words for step in self.timeline.steps[before:]]


def held_by(pid: int, attempt: int) -> Row:
    return claim(1, id="m", attempt=attempt, owner=Owner(pid=pid, command="worker.py"))


NEW = {"box": Box.NEW, "place": 1, "of": 1}
CLAIMED = {"claimed_at": T + 2.5, "pid": 7}
IN_CUR = {"box": Box.CUR, **CLAIMED, "row": held_by(7, 1)}
DEAD = {**IN_CUR, "verdict": Verdict.DEAD}
DONE = {**CLAIMED, "gone_at": T + 5.0}


@pytest.mark.parametrize(
    "looks",
    [
        [(NEW, ["waits in new, place 1 of 1"]), ({**NEW, "of": 8}, []), (IN_CUR, ["claimed by 7 worker.py, attempt 1"]),
         (IN_CUR, []), (DONE, ["gone, done after 2.5s"]), (DONE, [])],
        [(IN_CUR, ["claimed by 7 worker.py, attempt 1"]),
         (DEAD, ["its holder 7 is DEAD; the message stays in cur until it is requeued"]), (DEAD, []),
         ({**NEW, **CLAIMED}, ["back in new, place 1 of 1"]),
         ({"box": Box.CUR, "claimed_at": T + 3.9, "pid": 8, "row": held_by(8, 2)}, ["claimed by 8 worker.py, attempt 2"]),
         ({"box": Box.HELD, "claimed_at": T + 3.9, "pid": 8}, ["set aside in held"])],
        [(NEW, ["waits in new, place 1 of 1"]), (DONE, ["claimed by 7", "gone, done after 2.5s"])],
        [(NEW, ["waits in new, place 1 of 1"]), ({**NEW, **CLAIMED}, ["claimed by 7", "back in new, place 1 of 1"])],
        [({"row": replace(written(1, Verdict.WRITING), id="m"), "gone_at": T}, ["being written in tmp"]),
         (NEW, ["complete", "waits in new, place 1 of 1"])],
        [({}, ["not seen in any box"]), ({}, []), ({"gone_at": T + 4}, ["gone; consumer not seen"])],
    ],
    ids=["a whole life", "a holder dies", "done between two looks", "given back between two looks", "written", "not seen"],
)  # fmt: skip
def test_each_step_is_told_once_and_in_its_order(looks: list[tuple[dict[str, Any], list[str]]]) -> None:
    recorder = Recorder()
    assert [recorder.look(**facts) for facts, _ in looks] == [words for _, words in looks]


@pytest.mark.parametrize("box", Box)
def test_every_box_has_words(box: Box) -> None:
    recorder = Recorder()
    (words,) = recorder.look(box=box)
    assert words and recorder.timeline.now["m"]


def test_the_newest_step_stays_in_sight_and_what_is_above_is_counted() -> None:
    recorder = Recorder()
    for n in range(30):
        recorder.look(box=Box.CUR, claimed_at=T + n, pid=n, row=held_by(n, n))
    steps = recorder.timeline.steps

    def drawn(scroll: int) -> list[str]:
        lines = follow_lines(["m"], steps, recorder.timeline.now, 60, 12, since=T, scroll=scroll)
        assert len(lines) == 12
        return [line_text(line) for line in lines]

    assert "by 29 " in drawn(0)[-2] and "23 lines above" in "".join(drawn(0))
    assert "by 19 " in drawn(10)[-2]
    assert "by 0 " in "".join(drawn(1000)) and "above" not in "".join(drawn(1000))
