"""What a queue that ``open_queue`` returns no longer guarantees where its caller gave it up."""

from __future__ import annotations

from pathlib import Path

from spooltop import open_queue
from spooltop.engine import Spool
from spooltop.model.queue import Guarantee


def test_a_promise_that_was_given_up_is_no_guarantee(tmp_path: Path) -> None:
    Spool.create(tmp_path).close()
    with open_queue(str(tmp_path), durable=False) as queue, Spool(tmp_path, key_window=60.0) as windowed:
        assert frozenset(Guarantee) - queue.guarantees == {Guarantee.DURABLE}
        assert frozenset(Guarantee) - windowed.guarantees == {Guarantee.KEY_FOREVER}
