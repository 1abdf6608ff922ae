"""A spool that is exported: what the exporting machine says of a claim of a client that works on it.

An NFS server takes a client's lock as a byte-range lock on its own file system, and the presence file names the client's boot.
Both are simulated here: the file of a consumer is given another machine's words, and a process of ours holds the lock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.filters.selection import Selection
from spooltop.model.vocabulary import Action, Box, Verdict

from .consumers import Consumer

CLIENT = {"host": "client-b", "boot_id": "00000000-1111-2222-3333-444444444444", "machine_id": "b" * 32, "device": 4711}
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        yield
        holder.communicate("")


@pytest.fixture
def presence(spool_path: Path) -> Path:
    """The presence file of a client's consumer, which holds the one claim; its lock is not held by anybody here."""
    Consumer.claim(spool_path).kill()
    (path,) = (spool_path / ".spooltop/consumers").iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), **CLIENT}) + "\n")
    return path


def verdicts(spool: Path, **settings: str) -> list[Verdict | None]:
    with open_control(str(spool), watch=False, settings=settings) as control:
        return [row.verdict for row in control.look().observation.claims]


def test_a_claim_of_a_client_whose_lock_is_met_is_alive(spool_path: Path, presence: Path) -> None:
    with locked(presence), Spool(spool_path, durable=False) as spool:
        assert verdicts(spool_path) == [Verdict.ALIVE]
        assert spool.recover() == []
    assert len(list((spool_path / "cur").iterdir())) == 1


def test_a_claim_of_a_client_whose_lock_looks_free_is_unknown(spool_path: Path, presence: Path) -> None:
    """After a restart of nfsd, or cut off the network, the lock of a client that lives looks free."""
    assert presence.exists() and verdicts(spool_path) == [Verdict.UNKNOWN]
    with Spool(spool_path, durable=False) as spool:
        assert spool.recover() == []
    with open_control(str(spool_path), watch=False, settings={}) as control:
        assert not control.plan(Action.REQUEUE, Selection(box=Box.CUR, verdict=Verdict.DEAD)).items


def test_who_vouches_that_no_other_machine_mounted_the_spool_gets_dead(spool_path: Path, presence: Path) -> None:
    """Containers, whose host names and machine ids change: then another boot is a restart of this machine."""
    assert verdicts(spool_path, SPOOLTOP_CLAIMS_HOSTS="this-machine") == [Verdict.DEAD]
    with locked(presence), Spool(spool_path, durable=False, hosts="this-machine") as spool:
        assert spool.recover() == []
    with open_control(str(spool_path), watch=False, settings={"SPOOLTOP_CLAIMS_HOSTS": "this-machine"}) as control:
        plan = control.plan(Action.REQUEUE, Selection(box=Box.CUR, verdict=Verdict.DEAD))
        assert len(plan.items) == 1
    with Spool(spool_path, durable=False, hosts="this-machine") as spool:
        assert len(spool.recover()) == 1
