"""A consumer whose presence file was removed: it takes a new token and renames its claims to it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.engine import Claim, Spool
from spooltop.errors import ClaimLost, SpooltopError
from tests.engine.helpers import Files, Interposed, claimed, die_holding, in_child, names_in, places
from tests.engine.test_interrupted import InterruptAt
from tests.engine.test_pausing import pause


@pytest.fixture(autouse=True)
def looking_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer looks at each claim, and not only four times a second."""
    monkeypatch.setattr("spooltop.engine.consumer.CHECK_EVERY", 0)


def is_held(spool: Spool, claim: Claim) -> bool:
    """True if the presence file of the token in the name of the claim is there and locked."""
    try:
        with open(Path(spool.path, ".spooltop/consumers", claim.token)) as file:
            return bool(Files().write_locked(file.fileno()))
    except FileNotFoundError:
        return False


def remove_files(consumers: Path) -> None:
    for file in consumers.iterdir():
        file.unlink()


@pytest.mark.parametrize(("remove", "what"), [(shutil.rmtree, ""), (shutil.rmtree, "consumers"), (remove_files, "consumers")])
def test_all_its_claims_are_its_own_again_before_the_next(spool: Spool, remove: Callable[[Path], None], what: str) -> None:
    path = Path(spool.path)
    ids = spool.put_many([b"1", b"2", b"3"], source="mail")
    claims = [claimed(spool), claimed(spool)]
    before = [claim.name for claim in claims]
    assert claims[0].token == claims[1].token
    remove(path / ".spooltop" / what)
    assert not is_held(spool, claims[0])
    claims.append(claimed(spool))
    assert [claim.id for claim in claims] == ids and len({claim.token for claim in claims}) == 1
    assert all(is_held(spool, claim) for claim in claims)
    assert sorted(claim.name for claim in claims) == names_in(path / "cur")
    links = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert [link for link in links if link.startswith(f"{path}/.spooltop/consumers/") and "deleted" in link] == []
    assert not set(before) & {claim.name for claim in claims}
    assert [claim.parsed.claimed_us for claim in claims[:2]] == [int(name.split(".")[-1].split(":")[0]) for name in before]
    assert spool.recover() == []
    assert [claim.data for claim in claims] == [b"1", b"2", b"3"] and claims[0].source == "mail"
    claims[0].ack()
    claims[1].release()
    claims[2].reject("no")
    assert len(os.listdir(path / "new")) == 1 and os.listdir(path / "cur") == []


def test_after_its_death_its_claims_are_recovered(spool: Spool) -> None:
    ids = spool.put_many([b"", b""])

    def work() -> None:
        with Spool(spool.path, durable=False) as other:
            kept = [claimed(other)]
            shutil.rmtree(Path(spool.path, ".spooltop"))
            kept.append(claimed(other))
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == signal.SIGKILL
    assert spool.recover() == ids


def test_a_claim_that_was_taken_meanwhile_is_lost(spool: Spool) -> None:
    spool.put(b"")
    first = claimed(spool)
    shutil.rmtree(Path(spool.path, ".spooltop"))
    os.rename(Path(spool.path, "cur", first.name), Path(spool.path, "new", first.base))
    with claimed(spool) as again:
        assert again.id == first.id
        with pytest.raises(ClaimLost):
            first.ack()


def claims_first(spool: Spool) -> bool:
    id = spool.put(b"")
    with claimed(spool) as claim:
        return claim.id == id


def recovers(spool: Spool) -> bool:
    id = spool.put(b"")
    die_holding(Path(spool.path))
    return spool.recover() == [id]


def puts_with_a_key(spool: Spool) -> bool:
    return spool.put(b"", key="again") == spool.put(b"", key="again")


def sees_a_pause(spool: Spool) -> bool:
    pause(spool.path)
    return spool.paused is not None


@pytest.mark.parametrize("works", [claims_first, recovers, puts_with_a_key, sees_a_pause])
def test_a_spool_that_was_open_meanwhile_works_on(tmp_path: Path, works: Callable[[Spool], bool]) -> None:
    """It has directories open that were removed, and no presence whose loss it would notice."""
    with Spool.create(tmp_path, durable=False) as other, Spool(tmp_path, durable=False) as spool:
        other.put(b"", key="first")
        with claimed(other):
            assert spool.claim() is None and spool.recover() == [] and spool.paused is None
        assert spool.put(b"", key="first").duplicate  # type: ignore[attr-defined]
        shutil.rmtree(tmp_path / ".spooltop")
        assert works(spool)


def test_a_claim_of_before_is_rejected_where_others_were(spool: Spool) -> None:
    spool.put_many([b"", b""])
    claimed(spool).reject("no")
    claim = claimed(spool)
    shutil.rmtree(Path(spool.path, ".spooltop"))
    claim.reject("no")
    assert os.listdir(Path(spool.path, "cur")) == [] and os.listdir(Path(spool.path, ".spooltop/rejected"))


class Renaming:
    """Before the call of files that ``is_due``, another thread claims and renames all claims to a new token."""

    def __init__(self, path: Path, is_due: Callable[[int, str], bool]) -> None:
        self.files = Interposed(lambda number, name: self.rename() if is_due(number, name) else None)
        self.files.armed = False
        self.path, self.spool = path, Spool.create(path, durable=False, files=self.files)
        self.others: list[Claim] = []

    def rename(self) -> None:
        self.files.armed = False
        shutil.rmtree(self.path / ".spooltop/consumers")
        thread = threading.Thread(target=lambda: self.others.append(claimed(self.spool)))
        thread.start()
        thread.join()


ENDS: dict[str, Callable[[Claim], object]] = {
    "data": lambda claim: claim.data, "open": lambda claim: claim.open().close(), "ack": lambda claim: claim.ack(),
    "release": lambda claim: claim.release(), "reject": lambda claim: claim.reject("no"),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_a_step_of_another_thread_meets_the_claim_under_its_new_name(tmp_path: Path, end: str) -> None:
    """The token changes before each operation of the step in turn, as often as it has operations."""
    for wanted in itertools.count(1):
        renaming = Renaming(tmp_path / str(wanted), lambda number, _name, wanted=wanted: number == wanted)
        with renaming.spool as spool:
            id = spool.put(b"hello")
            claim = claimed(spool)
            spool.put(b"another")
            renaming.files.armed = True
            ENDS[end](claim)
            renaming.files.armed = False
            if not claim.ended:
                assert claim.data == b"hello"
                claim.ack()
            if not renaming.others:
                break
            spool.ack_many(renaming.others)
            again = list(spool.claims())
            assert [claim.id for claim in again] == [id] * (end == "release")
            spool.ack_many(again)
            left = [name for names in places(renaming.path).values() for name in names]
            assert len(left) == (end == "reject") and all(name.startswith(".spooltop/rejected/") for name in left), wanted
    assert wanted > 1, "the step has no operation"


def test_new_content_for_a_claim_that_is_renamed_meanwhile_is_refused_and_the_claim_still_held(tmp_path: Path) -> None:
    renaming = Renaming(tmp_path, lambda _number, name: name == "swap")
    with renaming.spool as spool:
        spool.put_many([b"hello", b"another"])
        claim = claimed(spool)
        renaming.files.armed = True
        with pytest.raises(SpooltopError, match=r"renamed meanwhile, as .spooltop was removed; it is still held"):
            claim.release(data=b"rest")
        assert claim.data == b"hello" and os.listdir(tmp_path / "tmp") == []
        claim.release(data=b"rest")
        spool.ack_many(renaming.others)
        with claimed(spool) as again:
            assert again.data == b"rest"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of files between their opening and the block that closes them
def test_after_an_interrupt_at_any_line_the_claims_are_renamed_by_the_next_call(tmp_path: Path) -> None:
    for line in itertools.count(1):
        path = tmp_path / str(line)
        with Spool.create(path, durable=False) as spool:
            ids = spool.put_many([b"1", b"2", b"3"])
            claims = [claimed(spool), claimed(spool)]
            shutil.rmtree(path / ".spooltop")
            interrupt = InterruptAt(line)
            try:
                with interrupt:
                    last = spool.claim()
            except KeyboardInterrupt:
                last = None
            claims.append(last or claimed(spool))
            assert [claim.id for claim in claims] == ids, line
            assert all(is_held(spool, claim) for claim in claims), line
            assert sorted(claim.name for claim in claims) == names_in(path / "cur"), line
            spool.ack_many(claims)
        if interrupt.left > 0:
            break
    assert line > 50, "nothing was traced"
