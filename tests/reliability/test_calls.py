"""Findings of the comparison of system calls with file operations."""

from __future__ import annotations

from .calls import MARK, compared


def marked(*inside: str) -> list[str]:
    return [f'access("{MARK}/step/begin", F_OK) = -1', *inside, f'access("{MARK}/step/end", F_OK) = -1']


def operation(name: str, *calls: str) -> list[str]:
    return [f'access("{MARK}/begin/{name}", F_OK) = -1', *calls, f'access("{MARK}/end/{name}", F_OK) = -1']


def test_a_call_within_its_operation_is_as_it_must_be() -> None:
    assert compared(iter(marked(*operation("sync", "fsync(5) = 0"))), "put") == (1, [])


def test_a_call_beside_the_object_is_found() -> None:
    lines = marked(*operation("sync", "fsync(5) = 0"), 'unlinkat(4, "job", 0) = 0', 'newfstatat(4, "job") = 0')
    assert len(compared(iter(lines), "put")[1]) == 2
    assert len(compared(iter(lines), "requeue")[1]) == 1


def test_an_operation_that_does_something_else_or_nothing_is_found() -> None:
    assert compared(iter(marked(*operation("sync", "write(5, 1) = 1"))), "put")[1] == ["sync did write(5, 1) = 1"]
    assert compared(iter(marked(*operation("sync"))), "put")[1] == ["sync made no system call"]
    assert compared(iter(marked()), "put")[1] == ["no operation was marked"]


def test_the_tables_of_the_kernel_are_left_out_until_they_are_closed() -> None:
    lines = ['openat(AT_FDCWD, "/proc/self/stat", O_RDONLY) = 9', "read(9, 1) = 1", "close(9) = 0"]
    assert compared(iter(marked(*operation("sync", "fsync(5) = 0"), *lines)), "put")[1] == []
    assert len(compared(iter(marked(*operation("sync", "fsync(5) = 0"), *lines, "read(9, 1) = 1")), "put")[1]) == 1
