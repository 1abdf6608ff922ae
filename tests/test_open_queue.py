"""``open_queue``: a directory as any queue, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import spooltop
from spooltop import open_queue, queues
from spooltop.engine import Spool
from spooltop.errors import NotASpool, Refused
from spooltop.model.queue import Guarantee


def test_a_promise_that_was_given_up_is_no_guarantee(tmp_path: Path) -> None:
    Spool.create(tmp_path).close()
    with open_queue(str(tmp_path), durable=False) as queue, Spool(tmp_path, key_window=60.0) as windowed:
        assert frozenset(Guarantee) - queue.guarantees == {Guarantee.DURABLE}
        assert frozenset(Guarantee) - windowed.guarantees == {Guarantee.KEY_FOREVER}


def test_what_has_no_messages_is_refused(tmp_path: Path, real_spools: Path) -> None:
    (tmp_path / "cursors.json").write_text("{}")
    with pytest.raises(NotASpool, match="put: these are cursors, not messages"):
        open_queue(str(tmp_path), action="put")
    with pytest.raises(NotASpool):
        open_queue(str(tmp_path / "nowhere"))
    with pytest.raises(Refused, match="work: "):
        open_queue(str(real_spools / "huey_filestorage"), action="work", environ={})


def test_the_package_has_no_other_names() -> None:
    assert spooltop.open_queue is queues.open_queue
    with pytest.raises(AttributeError, match="no attribute 'close_queue'"):
        spooltop.close_queue  # type: ignore[attr-defined]  # noqa: B018
