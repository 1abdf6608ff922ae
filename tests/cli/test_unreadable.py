"""Unreadable boxes are reported as unreadable: never as "nothing matched", never as a bug."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from spooltop.backends.access import user_name
from spooltop.backends.directory.listing import message
from spooltop.backends.directory.operator.operator import DirectoryOperator
from spooltop.backends.directory.operator.planning.selected import BoxNames
from spooltop.backends.directory.options import OpenOptions
from spooltop.backends.directory.rescan import FreshLook
from spooltop.backends.directory.world import World
from spooltop.engine import Spool
from spooltop.errors import Unreadable
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.progress import Progress
from spooltop.model.vocabulary import Action, Box
from tests.needs import needs

from .streams import spooltop


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with Spool.create(tmp_path / "spool", durable=False) as made:
        made.put(b"data")
    return tmp_path / "spool"


def operator(spool: Path) -> DirectoryOperator:
    """An operator of a spool whose ``cur`` cannot be listed."""
    fresh = FreshLook(str(spool), OpenOptions("spool", hosts=""), World())

    def look(box: Box, progress: Progress) -> BoxNames:
        if box is Box.CUR:
            raise Unreadable("cur: Input/output error", path=spool)
        return fresh.names(box, progress)

    return DirectoryOperator(str(spool), look=look, again=fresh.again, on_close=fresh.close)


def test_a_box_that_cannot_be_listed_is_no_box_without_matches(spool: Path) -> None:
    operating = operator(spool)
    with pytest.raises(Unreadable, match="cur: Input/output error"):
        operating.candidates(Action.REQUEUE, Selection(everything=True), force=False, options={}, now=0.0, progress=Progress())
    operating.close()


def test_what_stands_in_other_boxes_is_acted_on_all_the_same(spool: Path) -> None:
    operating = operator(spool)
    ids = tuple(os.listdir(spool / "new"))
    found = operating.candidates(Action.PURGE, Selection(ids=ids), force=False, options={}, now=time.time(), progress=Progress())
    operating.close()
    assert len(found.items) == 1
    assert "cur: Input/output error: its messages are not in this plan." in found.notes


@pytest.mark.parametrize("words", [["ops"], ["undo", "abc", "--yes"]])
def test_a_journal_that_cannot_be_read_is_not_taken_for_an_empty_one(spool: Path, words: list[str]) -> None:
    assert spooltop("purge", spool, "--box", "new", "ALL", "--yes").code == 0
    journal = spool / ".spooltop" / "journal.jsonl"
    journal.unlink()
    journal.mkdir()
    done = spooltop(words[0], spool, *words[1:])
    assert done.code == 5
    assert "the journal cannot be read" in done.err


def test_what_the_system_refuses_is_one_line_with_what_to_do(spool: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, os.strerror(5), "a\nb")

    done = spooltop("status", spool, opener=refuse)  # type: ignore[arg-type]
    assert done.code == 5
    assert done.err.startswith("spooltop: a\\x0ab: Input/output error; look at the kernel's log")
    assert "defect" not in done.err


@pytest.mark.parametrize("words", [[], ["--raw"]])
def test_a_message_that_may_not_be_read_names_who_may(spool: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(message, "open_regular", refuse)
    [id] = os.listdir(spool / "new")
    (spool / "new" / id).chmod(0o600)
    me = user_name(os.geteuid())
    done = spooltop("show", spool, id, *words)
    assert done.code == 5
    assert done.err.startswith(f"spooltop: new/{id}: permission denied; you are {me}, it belongs to {me} 0600. Try: sudo -u ")


@needs("root")
def test_a_trash_that_is_closed_to_us_is_not_empty(spool: Path) -> None:
    for box in ("new", "trash"):  # loads what is loaded late: the interpreter's own files may be closed to the other user
        assert spooltop("purge", spool, "--box", box, "ALL", "--yes").code == 0
    assert spooltop("purge", spool, "--box", "trash", "ALL", "--yes").code == 4
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir("/")
            folder = tempfile.mkdtemp()
            os.chown(folder, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            path = Path(folder) / "spool"
            with Spool.create(path, durable=False) as made:
                made.put(b"data")
            assert spooltop("purge", path, "--box", "new", "ALL", "--yes").code == 0
            [trashed] = (path / ".spooltop" / "trash").iterdir()
            trashed.chmod(0)
            done = spooltop("purge", path, "--box", "trash", "ALL", "--yes")
            assert (done.code, ": permission denied" in done.err and "trash/" in done.err) == (5, True), done
            trashed.chmod(0o700)
            shutil.rmtree(path)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
