"""A queue that only its own program changes: a key that would change it gives that program's command, and copies it."""

from __future__ import annotations

from spooltop.model.capabilities import Capabilities
from spooltop.model.vocabulary import Action

from .driving import dashboard
from .fake import FakeControl, waiting

COMMANDS = {Action.PURGE: "postsuper -d {id}"}


async def test_a_key_that_is_refused_gives_the_command_and_copies_it() -> None:
    one = waiting(1)
    control = FakeControl([one], capabilities=Capabilities.nothing("Postfix changes its own queue", COMMANDS))
    async with dashboard(control) as driver:
        await driver.walk(("2", one.id[-6:]), ("d", "purge: Postfix changes its own queue: postsuper -d"))
        assert driver.app.clipboard == f"postsuper -d {one.id}"
        await driver.walk(("h", "hold: Postfix changes its own queue"))
        assert "(copied)" not in driver.text and driver.app.clipboard == f"postsuper -d {one.id}"
