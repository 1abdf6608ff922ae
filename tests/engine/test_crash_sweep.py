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

from spooltop.engine import Claim, Spool
from spooltop.errors import ClaimLost, Refused, SpooltopError
from tests.engine.helpers import CHANGING, Interposed, claimed, die_holding, failing_at, in_child, killed_at, places
from tests.scratch import Template

DATA = b"whole " * 1000
CHANGED = b"what is left " * 1000
# A claim whose end failed is still held, and closing gives it back.
gives_back = pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")


def of_claim(end: Callable[[Claim], object]) -> Callable[[Spool], object]:
    return lambda spool: end(claimed(spool))


OPERATIONS: dict[str, Callable[[Spool], object]] = {
    "put": lambda spool: spool.put(DATA, source="s"),
    "put by id": lambda spool: spool.put(DATA, id="chosen"),
    "put by key": lambda spool: spool.put(DATA, key="key"),
    "put_many": lambda spool: spool.put_many([DATA] * 3),
    "claim": of_claim(lambda claim: claim.end()),  # without the finaliser: what is held when the process dies
    "ack": of_claim(lambda claim: claim.ack()),
    "release": of_claim(lambda claim: claim.release()),
    "release with data": of_claim(lambda claim: claim.release(data=CHANGED)),
    "reject": of_claim(lambda claim: claim.reject("on purpose")),
    "recover": lambda spool: spool.recover(),
}
PUTS = {"put": 1, "put by id": 1, "put by key": 1, "put_many": 3}
RETRIED = ("put by id", "put by key")
FIRST = 32
"""Drafts that a process makes in ``tmp`` before it takes a staging directory."""


def prepared(path: Path, operation: str) -> None:
    """A spool with one message, claimed by a dead consumer where recover is tested; the directories of our own stand already."""
    with Spool.create(path, False) as spool:
        spool.put(b"", key="k")
        claimed(spool).ack()
        spool.put(DATA, id="here")
    if operation == "recover":
        die_holding(path)


def opened(path: Path, files: Interposed, durable: bool) -> Spool:
    """A spool whose calls count from now on; its next draft is made in a staging directory, where the files have such."""
    files.armed = False
    spool = Spool(path, durable, files=files)
    if files.staging:
        for id in spool.put_many([b""] * FIRST):
            os.unlink(path / "new" / id)
    files.armed = True
    return spool


def consumed(path: Path) -> list[tuple[str, bytes]]:
    """Returns the (id, data) that a recover and a consumer get after the crash."""
    with Spool(path, False) as spool:
        spool.recover()
        assert all(len(names) == 1 for names in places(path).values()), places(path)
        claims = list(spool.claims())
        got = [(held.id, held.data) for held in claims]
        spool.ack_many(claims)
        return got


def standing(path: Path) -> list[str]:
    """The places of all messages but for drafts, which are not delivered."""
    names = [names[0] for names in places(path).values()]
    return [name for name in names if not name.startswith(("tmp/", ".spooltop/stage/"))]


def template(memory: Path, operation: str) -> Template:
    made = Template(memory / "spool")
    prepared(made.path, operation)
    made.keep()
    return made


def crash_points(
    memory: Path, operation: str, *, durable: bool = True, renameat2: bool = True, staging: bool = False
) -> Iterator[tuple[int, Path, bool]]:
    """(k, the spool after a kill at the k-th change, whether the operation was reached to its end), until it passes."""
    made = template(memory, operation)
    for k in range(1, 500):
        made.lay_out()

        def work(k: int = k) -> None:
            files = killed_at(k, of=CHANGING, renameat2=renameat2, staging=staging)
            OPERATIONS[operation](opened(made.path, files, durable))
            os._exit(0)

        status = in_child(work)
        assert status in (0, signal.SIGKILL), status
        yield k, made.path, status == 0
        if status == 0:
            assert k > 3
            return
    raise AssertionError("it never passes")


KINDS: dict[str, dict[str, bool]] = {"renameat2": {}, "link and unlink": {"renameat2": False}, "staging": {"staging": True}}


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        *((operation, kind) for operation in OPERATIONS for kind in list(KINDS)[:2] if operation != "release with data"),
        *((operation, "staging") for operation in ("put", "put_many")),
    ],
)  # fmt: skip
def test_killed_at_every_change(memory: Path, operation: str, kind: str) -> None:
    expected, staged = PUTS.get(operation, 0), 0
    for k, root, finished in crash_points(memory, operation, **KINDS[kind]):
        before = standing(root)
        staged += any(root.glob(".spooltop/stage/*/*"))
        assert all((root / name).read_bytes() == DATA for name in before), k
        got = consumed(root)
        assert all(data == DATA for _, data in got), k
        ids = [id for id, _ in got]
        assert len(set(ids)) == len(ids), (k, ids)
        if operation == "reject":
            [*rest] = standing(root)
            assert len(ids) + len(rest) == 1 and len(rest) >= finished, (k, ids, rest)
            assert all(name.startswith(".spooltop/rejected/") for name in rest), (k, rest)
            continue
        assert standing(root) == [], (k, standing(root))
        if operation == "ack":  # gone only with the unlink, and delivered again until then
            assert ids == ["here"] * len(before) and not (finished and before), (k, ids, before)
        else:
            assert "here" in ids and len(ids) <= 1 + expected and (len(ids) == 1 + expected or not finished), (k, ids)
    assert (staged > 1) == (kind == "staging")


@pytest.mark.parametrize("operation", RETRIED)
def test_a_put_that_was_killed_and_is_tried_again_gives_one_message(memory: Path, operation: str) -> None:
    for k, root, _ in crash_points(memory, operation):
        with Spool(root, False) as spool:
            OPERATIONS[operation](spool)
        got = consumed(root)
        assert len(got) == 2 and {data for _, data in got} == {DATA}, (k, got)


def attempts(memory: Path, operation: str, code: int, **kind: bool) -> Iterator[tuple[int, Path, Exception | None]]:
    """(k, the spool after the k-th call failed, the error that was raised), until no call is left to fail."""
    made = template(memory, operation)
    for k in range(1, 500):
        made.lay_out()
        files = failing_at(k, code, **kind)
        spool = opened(made.path, files, durable=True)
        error: Exception | None = None
        try:
            OPERATIONS[operation](spool)
        except (OSError, SpooltopError) as caught:
            error = caught
        finally:
            files.armed = False
            spool.close()
        yield k, made.path, error
        if len(files.calls) < k:
            assert error is None
            return
    raise AssertionError("it never passes")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        *((operation, {"renameat2": False, "persistent": persistent}) for operation in PUTS for persistent in (False, True)),
        *((operation, {"staging": True, "done": done}) for operation in ("put", "put_many") for done in (False, True)),
    ],
    ids=str,
)
def test_an_error_at_every_call_of_a_put(memory: Path, operation: str, kind: dict[str, bool], code: int) -> None:
    """Without renameat2, and in a staging directory; ``tests.reliability.errors`` fails all other calls."""
    for k, root, error in attempts(memory, operation, code, **kind):
        if error is not None and operation in RETRIED:
            with Spool(root, False) as spool:
                OPERATIONS[operation](spool)  # the retry makes it one message, whatever came of the first
        got = [data for id, data in consumed(root) if id != "here"]
        assert set(got) <= {DATA} and len(got) <= PUTS[operation], (k, got)
        if error is None or operation in RETRIED:
            assert len(got) == PUTS[operation], (k, got)


# A release that changes the content


def one_of_two(path: Path) -> bytes:
    """The content of the one message there is."""
    assert all((path / name).read_bytes() in (DATA, CHANGED) for name in standing(path))
    [(id, data)] = consumed(path)
    assert id == "here" and standing(path) == []
    return data


@pytest.mark.parametrize("durable", [False, True])
def test_a_changed_release_that_is_killed_gives_the_message_once_with_the_old_content_or_the_new(
    memory: Path, durable: bool
) -> None:
    got = [one_of_two(root) for _, root, _ in crash_points(memory, "release with data", durable=durable)]
    assert got == sorted(got, reverse=True) and set(got) == {DATA, CHANGED}  # first the old one, from one point on the new one
    assert got[-1] == CHANGED and len(got) > 10


@gives_back
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_error_at_every_call_of_a_changed_release(memory: Path, code: int, done: bool) -> None:
    for k, root, error in attempts(memory, "release with data", code, done=done):
        assert not isinstance(error, ClaimLost), k
        assert one_of_two(root) == CHANGED or error is not None, k


@gives_back
def test_a_changed_release_where_files_cannot_be_swapped_is_refused_and_changes_nothing(memory: Path) -> None:
    def before(_number: int, name: str) -> None:
        if name == "swap":
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    prepared(memory, "release with data")
    with Spool(memory, False, files=Interposed(before)) as spool:
        held = claimed(spool)
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
    prepared(memory, "release with data")
    with Spool(memory, False, files=Interposed(before)) as spool:
        held = claimed(spool)
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
            held = claimed(spool)
            assert (held.id, held.data) == ("foreign", expected)
            with open(memory / "file", "w+b") as file:
                file.write(b"from a file")
                file.seek(0)
                held.release(data=file)
            assert (memory / "new/foreign").stat().st_mtime == 1_700_000_000
        (memory / "new/foreign").unlink()
        held = claimed(spool)
        assert held.source == "s"
        held.release(data=b"")
        held = claimed(spool)
        assert (held.source, held.data, held.attempt) == ("s", b"", 2)
        held.ack()


def test_at_the_limit_of_attempts_a_changed_release_rejects_what_was_changed(memory: Path) -> None:
    with Spool.create(memory, False, max_attempts=1) as spool:
        spool.put(DATA)
        held = claimed(spool)
        held.release(data=CHANGED)
        [path] = [path for path in (memory / ".spooltop/rejected").glob("*/*") if not path.name.startswith(".")]
        assert path.read_bytes() == CHANGED
