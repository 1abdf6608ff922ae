"""What cannot be read is reported as unreadable: never as "nothing matched", never as a bug."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from spooltop.engine import Spool
from tests.needs import needs

from .streams import spooltop


@pytest.fixture(autouse=True)
def message(spool: Path) -> None:
    (spool / "new" / "message").write_bytes(b"data")


@pytest.mark.parametrize("words", [["ops"], ["undo", "abc", "--yes"]])
def test_a_journal_that_cannot_be_read_is_not_taken_for_an_empty_one(spool: Path, words: list[str]) -> None:
    assert spooltop("purge", spool, "--box", "new", "ALL", "--yes").code == 0
    journal = spool / ".spooltop" / "journal.jsonl"
    journal.unlink()
    journal.mkdir()
    done = spooltop(words[0], spool, *words[1:])
    assert (done.code, "the journal cannot be read" in done.err) == (5, True)


@pytest.mark.parametrize("words", [[], ["--raw"]])
def test_a_message_that_may_not_be_read_names_who_may(spool: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    opens = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "message":
            raise PermissionError(13, os.strerror(13))
        return opens(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    (spool / "new" / "message").chmod(0o600)
    done = spooltop("show", spool, "message", *words)
    assert done.code == 5
    assert re.match(
        r"spooltop: new/message: permission denied; you are (\S+), it belongs to \1 0600. Try: sudo -u \1 ", done.err
    ), done.err


@needs("root")
def test_a_trash_that_is_closed_to_us_is_not_empty(spool: Path) -> None:
    for box in ("new", "trash"):  # loads what is loaded late: the interpreter's own files may be closed to the other user
        assert spooltop("purge", spool, "--box", box, "ALL", "--yes").code == 0
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
