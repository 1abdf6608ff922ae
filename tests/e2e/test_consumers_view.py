"""Who works here, through a real terminal: a consumer is killed, stands on top, and all that it held is requeued by keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from spooltop.engine import Spool

from .consumers import hold
from .terminal import Terminal

Dashboard = Callable[..., Terminal]


def test_all_that_a_killed_consumer_held_goes_back(spool_path: Path, dashboard: Dashboard) -> None:
    with Spool(spool_path) as spool:
        for number in range(5 - spool.depth()):
            spool.put(b"%d" % number)
    holders = [hold(spool_path, many) for many in (1, 2, 1)]
    victim = holders[1]
    try:
        screen = dashboard(str(spool_path))
        screen.wait_for("live · as of")
        screen.type("8")
        screen.wait_for(lambda text: "Consumers 3" in text and all(str(one.pid) in text for one in holders))
        victim.kill()
        victim.wait(30)
        screen.wait_for(lambda text: re.search(rf"▌ +DEAD +{victim.pid} ", text) is not None)
        screen.type("r")
        screen.wait_for("y requeue 2")
        screen.type("y")
        screen.wait_for("Requeued 2")
        screen.type("\x1b")
        screen.wait_for(lambda text: re.search(rf"exited +{victim.pid} ", text) is not None)
        with Spool(spool_path) as spool:
            assert spool.depth() == 3
        screen.type("qq")
        assert screen.wait_exit() == 0
    finally:
        for one in holders:
            one.communicate("", timeout=30)
