"""The steps of a message between two looks, and their order."""

from __future__ import annotations

from dataclasses import replace

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

    def look(self, *, row: Row | None = None, at: float | None = None, **facts: object) -> list[str]:
        """The text of the steps that this look added."""
        self.at = self.at + 1 if at is None else at
        before = len(self.timeline.steps)
        one = TrackedMessage("m", **facts)  # type: ignore[arg-type]
        self.timeline.take(MessagesTracked(self.at, {"m": one}), {} if row is None else {"m": replace(row, id="m")})
        return [step.words for step in self.timeline.steps[before:]]


def held_by(pid: int, attempt: int) -> Row:
    return claim(1, attempt=attempt, owner=Owner(pid=pid, command="worker.py"))


def test_a_whole_life() -> None:
    recorder = Recorder()
    assert recorder.look(box=Box.NEW, place=3, of=9) == ["waits in new, place 3 of 9"]
    assert recorder.look(box=Box.NEW, place=1, of=8) == []
    assert recorder.timeline.now["m"] == "waits in new, place 1 of 8"
    assert recorder.look(box=Box.CUR, claimed_at=T + 2.5, pid=7, row=held_by(7, 1)) == ["claimed by 7 worker.py, attempt 1"]
    assert recorder.look(box=Box.CUR, claimed_at=T + 2.5, pid=7, row=held_by(7, 1)) == []
    assert recorder.look(claimed_at=T + 2.5, pid=7, gone_at=T + 5.0) == ["gone, done after 2.5s"]
    assert recorder.look(claimed_at=T + 2.5, pid=7, gone_at=T + 5.0) == []
    assert recorder.timeline.now["m"] == "gone"
    assert [step.at for step in recorder.timeline.steps] == [T + 1, T + 2.5, T + 5.0]


def test_a_holder_that_dies_and_the_next_one() -> None:
    recorder = Recorder()
    recorder.look(box=Box.CUR, claimed_at=T, pid=7, row=held_by(7, 1), verdict=Verdict.ALIVE)
    assert recorder.look(box=Box.CUR, claimed_at=T, pid=7, row=held_by(7, 1), verdict=Verdict.DEAD) == [
        "its holder 7 is DEAD; the message stays in cur until it is requeued"
    ]
    assert recorder.timeline.steps[-1].bad
    assert recorder.look(box=Box.CUR, claimed_at=T, pid=7, row=held_by(7, 1), verdict=Verdict.DEAD) == []
    assert recorder.look(box=Box.NEW, claimed_at=T, pid=7, place=1, of=1) == ["back in new, place 1 of 1"]
    assert recorder.look(box=Box.CUR, claimed_at=T + 3.9, pid=8, row=held_by(8, 2)) == ["claimed by 8 worker.py, attempt 2"]
    assert recorder.look(box=Box.HELD, claimed_at=T + 3.9, pid=8) == ["set aside in held"]


def test_claimed_and_done_between_two_looks_is_told_in_its_order() -> None:
    recorder = Recorder()
    recorder.look(box=Box.NEW, place=1, of=1)
    assert recorder.look(claimed_at=T + 1.2, pid=7, gone_at=T + 1.4) == ["claimed by 7", "gone, done after 0.2s"]


def test_claimed_and_given_back_between_two_looks_is_told() -> None:
    recorder = Recorder()
    recorder.look(box=Box.NEW, place=1, of=1)
    assert recorder.look(box=Box.NEW, claimed_at=T + 1.2, pid=7, place=1, of=1) == ["claimed by 7", "back in new, place 1 of 1"]


def test_what_is_written_is_not_gone_for_being_in_no_box_of_messages() -> None:
    recorder = Recorder()
    assert recorder.look(row=written(1, Verdict.WRITING), gone_at=T) == ["being written in tmp"]
    assert recorder.look(box=Box.NEW, place=4, of=4) == ["complete", "waits in new, place 4 of 4"]


@pytest.mark.parametrize("box", Box)
def test_every_box_has_words(box: Box) -> None:
    recorder = Recorder()
    (words,) = recorder.look(box=box)
    assert words and recorder.timeline.now["m"]


def test_what_was_not_seen_is_not_made_up() -> None:
    recorder = Recorder()
    assert recorder.look() == ["not seen in any box"]
    assert recorder.look() == []
    assert recorder.look(gone_at=T + 4) == ["gone; consumer not seen"]


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
