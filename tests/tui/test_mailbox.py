"""The mailbox between the snapshot thread and a screen that takes nothing, as while the terminal does not read."""

from __future__ import annotations

import os

from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Box
from spooltop.tui.threads.mailbox import Mailbox
from spooltop.tui.threads.messages import KeysRead, SnapshotTaken

from .driving import dashboard
from .fake import FakeControl, claim


def test_an_answer_stays_behind_the_list_that_it_is_about() -> None:
    mailbox = Mailbox()
    snapshot = FakeControl([claim(1)]).look()
    taken, asked = SnapshotTaken(snapshot, None), KeysRead(ListQuery(Box.NEW), ())
    for found in (taken, taken, asked, taken, taken):
        mailbox.put(found)
    assert mailbox.take() == [taken, asked, taken]


async def test_however_long_a_screen_is_held_up_as_little_waits_for_it() -> None:
    control = FakeControl([claim(1)])
    async with dashboard(control) as driver:
        driver.app.target.snapshot_thread.follow(["1"])
        looks = control.looks
        while control.looks < looks + 50:  # the event loop stands still here, as where the terminal does not read
            control.change()
            os.sched_yield()
        waiting = driver.app.target.mailbox.take()
        assert 1 <= len(waiting) <= 3, waiting
        assert driver.app.message_queue_size <= 3
