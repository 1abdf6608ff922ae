"""Reads files that somebody else may have put there, and checks which of them are refused."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from spooltop.engine.system.small_files import IRREGULAR, NotRegular, open_regular, read_small


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("plain")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    return tmp_path


def test_a_regular_file_is_read_up_to_the_limit(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        found = read_small("plain", fd, limit=4)
    finally:
        os.close(fd)
    assert (found.data, found.status.st_size) == (b"0123", 10)
    assert read_small(str(folder / "plain"), limit=10, whole=True).data == b"0123456789"


def test_a_longer_file_is_refused_where_all_of_it_is_wanted(folder: Path) -> None:
    with pytest.raises(OSError) as raised:
        read_small(str(folder / "plain"), limit=9, whole=True)
    assert raised.value.errno == errno.EFBIG


@pytest.mark.parametrize("name", ["fifo", "directory"])
def test_what_is_no_regular_file_is_refused_without_waiting(folder: Path, name: str) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(NotRegular) as raised:
        open_regular(str(folder / name))
    assert raised.value.errno in IRREGULAR
    assert os.path.samestat(raised.value.status, os.stat(folder / name))
    assert os.listdir("/proc/self/fd") == before


def test_a_link_is_followed_only_where_it_was_asked_for(folder: Path) -> None:
    with pytest.raises(OSError) as raised:
        read_small(str(folder / "link"))
    assert raised.value.errno in IRREGULAR
    assert read_small(str(folder / "link"), follow=True).data == b"0123456789"


def test_a_socket_is_refused(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        with pytest.raises(OSError) as raised:
            read_small(str(folder / "socket"))
    assert raised.value.errno in IRREGULAR
