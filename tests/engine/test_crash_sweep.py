"""Every operation is cut off at each of its changes, and made to fail at each of its calls.

No message is lost, doubled, or seen before it is whole.

A confirmed put is there; a message stands in one place, two names of one file counting as one until ``recover`` has been there;
what recover and consumers give is each message once, whole.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.errors import ClaimLost, Refused, SpooltopError
from tests.engine.helpers import CHANGING, Interposed, failing_at, in_child, killed_at, places
from tests.scratch import Template

DATA = b"whole " * 1000
CHANGED = b"what is left " * 1000
# A claim whose end failed is still held, and closing gives it back.
gives_back = pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")


def put(spool: Spool) -> None:
    spool.put(DATA, source="s")


def put_by_id(spool: Spool) -> None:
    spool.put(DATA, id="chosen")


def put_by_key(spool: Spool) -> None:
    spool.put(DATA, key="key")


def put_many(spool: Spool) -> None:
    spool.put_many([DATA] * 3)


def claim(spool: Spool) -> None:
    held = spool.claim()
    assert held is not None
    held.end()  # without the finaliser: what is held when the process dies


def ack(spool: Spool) -> None:
    held = spool.claim()
    assert held is not None
    held.ack()


def release(spool: Spool) -> None:
    held = spool.claim()
    assert held is not None
    held.release()


def release_changed(spool: Spool) -> None:
    held = spool.claim()
    assert held is not None
    held.release(data=CHANGED)


def reject(spool: Spool) -> None:
    held = spool.claim()
    assert held is not None
    held.reject("on purpose")


def recover(spool: Spool) -> None:
    spool.recover()


OPERATIONS: list[Callable[[Spool], None]] = [put, put_by_id, put_by_key, put_many, claim, ack, release, reject, recover]


def prepared(path: Path, operation: Callable[[Spool], None]) -> None:
    """A spool with one message, claimed by a dead consumer where recover is tested; the directories of our own stand already."""
    with Spool.create(path, False) as spool:
        spool.put(b"", key="k")
        first = spool.claim()
        assert first is not None
        first.ack()
        spool.put(DATA, id="here")
    if operation is recover:

        def work() -> None:
            with Spool(path, False) as dying:
                held = dying.claim()
                assert held is not None
                os.kill(os.getpid(), signal.SIGKILL)

        assert in_child(work) == signal.SIGKILL


def consumed(path: Path) -> list[tuple[str, bytes]]:
    """Returns the (id, data) that a recover and a consumer get after the crash."""
    with Spool(path, False) as spool:
        spool.recover()
        assert all(len(names) == 1 for names in places(path).values()), places(path)
        got = []
        for held in spool.claims():
            got.append((held.id, held.data))
            held.ack()
        return got


def standing(path: Path) -> list[str]:
    return [names[0] for names in places(path).values()]


def template(memory: Path, operation: Callable[[Spool], None]) -> Template:
    made = Template(memory / "spool")
    prepared(made.path, operation)
    made.keep()
    return made


def crash_points(
    memory: Path, operation: Callable[[Spool], None], *, renameat2: bool = True, durable: bool = True
) -> Iterator[tuple[int, Path, bool]]:
    """(k, the spool after a kill at the k-th change, whether the operation was reached to its end), until it passes."""
    made = template(memory, operation)
    root = made.path
    for k in range(1, 500):
        made.lay_out()

        def work(k: int = k) -> None:
            files = killed_at(k, of=CHANGING, renameat2=renameat2)
            files.armed = False
            spool = Spool(root, durable, files=files)
            files.armed = True
            operation(spool)
            os._exit(0)

        status = in_child(work)
        assert status in (0, signal.SIGKILL), status
        yield k, root, status == 0
        if status == 0:
            return
    raise AssertionError("it never passes")


@pytest.mark.parametrize("renameat2", [True, False])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_at_every_change(memory: Path, operation: Callable[[Spool], None], renameat2: bool) -> None:
    points = 0
    for k, root, finished in crash_points(memory, operation, renameat2=renameat2):
        points += 1
        for name in standing(root):
            if not name.startswith("tmp/"):
                assert (root / name).read_bytes() == DATA, (k, name)
        got = consumed(root)
        assert all(data == DATA for _, data in got), k
        ids = [id for id, _ in got]
        assert len(set(ids)) == len(ids), (k, ids)
        rest = standing(root)
        if operation in (put, put_by_id, put_by_key, put_many):
            assert "here" in ids, k
            assert len(ids) <= (4 if operation is put_many else 2), (k, ids)
            if finished:
                assert len(ids) == (4 if operation is put_many else 2) and rest == [], (k, ids)
            assert all(name.startswith("tmp/") for name in rest), (k, rest)
        elif operation is ack:
            assert ids == ([] if finished else ["here"]) or (not finished and ids == []), (k, ids)
            assert rest == [], (k, rest)
        elif operation is reject:
            assert len(ids) + len(rest) == 1, (k, ids, rest)
            if finished:
                assert rest[0].startswith(".spooltop/rejected/"), (k, rest)
        else:
            assert ids == ["here"] and rest == [], (k, ids, rest)
    assert points > 3


def test_an_ack_that_was_not_reached_is_delivered_again(memory: Path) -> None:
    outcomes = []
    for _, root, finished in crash_points(memory, ack):
        unlinked = not [name for name in standing(root) if not name.startswith("tmp/")]
        outcomes.append((finished, unlinked))
        assert len(consumed(root)) == (0 if unlinked else 1)
    # Before the unlink it is there each time, and only between the unlink and the end it may be gone without having been told.
    assert outcomes == sorted(outcomes, key=lambda outcome: outcome[1])
    assert outcomes[0] == (False, False) and outcomes[-1] == (True, True)


@pytest.mark.parametrize("retried", [put_by_id, put_by_key])
def test_a_put_that_was_killed_and_is_tried_again_gives_one_message(memory: Path, retried: Callable[[Spool], None]) -> None:
    for k, root, _ in crash_points(memory, retried):
        with Spool(root, False) as spool:
            retried(spool)
        got = consumed(root)
        assert len(got) == 2 and {data for _, data in got} == {DATA}, (k, got)


def attempt(root: Path, operation: Callable[[Spool], None], files: Interposed) -> Exception | None:
    files.armed = False
    spool = Spool(root, files=files)
    files.armed = True
    try:
        operation(spool)
    except (OSError, SpooltopError) as error:
        return error
    finally:
        files.armed = False
        spool.close()
    return None


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", [put, put_by_id, put_by_key, put_many])
def test_an_error_at_every_call_of_a_put_without_renameat2(
    memory: Path, operation: Callable[[Spool], None], code: int, persistent: bool
) -> None:
    """With it, ``tests.reliability.errors`` does so."""
    expected = 3 if operation is put_many else 1
    made = template(memory, operation)
    root = made.path
    for k in range(1, 500):
        made.lay_out()
        files = failing_at(k, code, persistent=persistent, renameat2=False)
        error = attempt(root, operation, files)
        confirmed = error is None
        if not confirmed and operation in (put_by_id, put_by_key):
            with Spool(root, False) as spool:
                operation(spool)  # the retry makes it one message, whatever came of the first
        got = [data for id, data in consumed(root) if id != "here"]
        assert set(got) <= {DATA}, k
        if confirmed or operation in (put_by_id, put_by_key):
            assert len(got) == expected, (k, files.calls, got)
        else:
            assert len(got) <= expected
        if len(files.calls) < k:
            assert confirmed
            return
    raise AssertionError("it never passes")


@gives_back
@pytest.mark.parametrize("operation", [put, put_by_id, put_by_key, claim, ack, release, reject, recover])
def test_done_and_yet_reported_as_an_error(memory: Path, operation: Callable[[Spool], None]) -> None:
    made = template(memory, operation)
    root = made.path
    for k in range(1, 500):
        made.lay_out()
        files = failing_at(k, errno.EIO, done=True)
        confirmed = attempt(root, operation, files) is None
        ids = [id for id, _ in consumed(root)]
        rest = [name for name in standing(root) if not name.startswith("tmp/")]
        if operation in (put, put_by_id, put_by_key):
            assert "here" in ids and len(ids) <= 2 and (len(ids) == 2 or not confirmed), (k, files.calls)
        elif operation is reject:
            assert len(ids) + len(rest) == 1, (k, ids, rest)
        elif operation is ack:
            assert ids == ([] if confirmed else ids) and len(ids) <= 1, (k, ids)
        else:
            assert ids == ["here"], (k, ids)
        if len(files.calls) < k:
            assert confirmed
            return
    raise AssertionError("it never passes")


@gives_back
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", [claim, ack, release, reject, recover])
def test_an_error_at_every_call_of_a_consumer(memory: Path, operation: Callable[[Spool], None], code: int) -> None:
    made = template(memory, operation)
    root = made.path
    for k in range(1, 500):
        made.lay_out()
        files = failing_at(k, code)
        error = attempt(root, operation, files)
        assert not isinstance(error, ClaimLost)
        ids = [id for id, _ in consumed(root)]
        rest = standing(root)
        if operation is ack:
            assert ids == ["here"] if error is not None and "unlink" not in files.calls[: k - 1] else ids in ([], ["here"]), k
        elif operation is reject:
            assert len(ids) + len(rest) == 1, (k, ids, rest)
        else:
            assert ids == ["here"] and rest == [], (k, ids, rest)
        if len(files.calls) < k:
            assert error is None
            return
    raise AssertionError("it never passes")


# A release that changes the content


def one_of_two(path: Path) -> bytes:
    """The content of the one message there is; what is left over stands in tmp, where nobody delivers it."""
    for name in standing(path):
        assert name.startswith("tmp/") or (path / name).read_bytes() in (DATA, CHANGED), name
    [(id, data)] = consumed(path)
    assert id == "here" and all(name.startswith("tmp/") for name in standing(path))
    return data


@pytest.mark.parametrize("durable", [False, True])
def test_a_changed_release_that_is_killed_gives_the_message_once_with_the_old_content_or_the_new(
    memory: Path, durable: bool
) -> None:
    got = [one_of_two(root) for _, root, _ in crash_points(memory, release_changed, durable=durable)]
    assert got == sorted(got, reverse=True) and set(got) == {DATA, CHANGED}  # first the old one, from one point on the new one
    assert got[-1] == CHANGED and len(got) > 10


@gives_back
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_error_at_every_call_of_a_changed_release(memory: Path, code: int, done: bool) -> None:
    made = template(memory, release_changed)
    root = made.path
    for k in range(1, 500):
        made.lay_out()
        files = failing_at(k, code, done=done)
        error = attempt(root, release_changed, files)
        assert not isinstance(error, ClaimLost), k
        data = one_of_two(root)
        if error is None:
            assert data == CHANGED, k
        if len(files.calls) < k:
            assert error is None
            return
    raise AssertionError("it never passes")


@gives_back
def test_a_changed_release_where_files_cannot_be_swapped_is_refused_and_changes_nothing(memory: Path) -> None:
    def before(_number: int, name: str) -> None:
        if name == "swap":
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    prepared(memory, release_changed)
    with Spool(memory, False, files=Interposed(before)) as spool:
        held = spool.claim()
        assert held is not None
        with pytest.raises(Refused, match="cannot swap two files in one step, which changed content needs; put the new content"):
            held.release(data=CHANGED)
        assert held.data == DATA and os.listdir(memory / "tmp") == []
        held.release()
    assert consumed(memory) == [("here", DATA)]


@pytest.mark.parametrize("operation", ["create", "swap"])
def test_a_changed_release_of_a_claim_that_was_taken_away_is_lost_and_changes_nothing(memory: Path, operation: str) -> None:
    def before(_number: int, name: str) -> None:
        if name == operation and not taken:
            taken.append(held.name)
            os.rename(memory / "cur" / held.name, memory / "new" / held.base)  # by an operator, with force

    taken: list[str] = ["not yet"]
    prepared(memory, release_changed)
    with Spool(memory, False, files=Interposed(before)) as spool:
        held = spool.claim()
        assert held is not None
        taken.clear()
        with pytest.raises(ClaimLost):
            held.release(data=CHANGED)
    assert os.listdir(memory / "tmp") == []
    assert consumed(memory) == [("here", DATA)]


def test_a_changed_release_keeps_age_source_and_place_and_takes_files_and_what_is_empty(memory: Path) -> None:
    with Spool.create(memory, False) as spool:
        (memory / "new/foreign").write_bytes(b"old")
        os.utime(memory / "new/foreign", (1_700_000_000, 1_700_000_000))
        spool.put(b"second", source="s")
        for expected in (b"old", b"from a file"):
            held = spool.claim()
            assert held is not None and (held.id, held.data) == ("foreign", expected)
            with open(memory / "file", "w+b") as file:
                file.write(b"from a file")
                file.seek(0)
                held.release(data=file)
            assert (memory / "new/foreign").stat().st_mtime == 1_700_000_000
        (memory / "new/foreign").unlink()
        held = spool.claim()
        assert held is not None and held.source == "s"
        held.release(data=b"")
        held = spool.claim()
        assert held is not None and (held.source, held.data, held.attempt) == ("s", b"", 2)
        held.ack()


def test_at_the_limit_of_attempts_a_changed_release_rejects_what_was_changed(memory: Path) -> None:
    with Spool.create(memory, False, max_attempts=1) as spool:
        spool.put(DATA)
        held = spool.claim()
        assert held is not None
        held.release(data=CHANGED)
        [path] = [path for path in (memory / ".spooltop/rejected").glob("*/*") if not path.name.startswith(".")]
        assert path.read_bytes() == CHANGED
