"""The least that a message can cost: the same system calls in a bare loop, in Python and in C."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

__all__ = ["BareLoop", "CompiledLoop"]

_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void need(int ok) { if (!ok) { perror("floor"); exit(1); } }

int main(int argc, char **argv) {
    int count = atoi(argv[2]), size = atoi(argv[3]);
    char name[64], other[128], *data = malloc(size + 1);
    memset(data, 'x', size);
    need(argc == 4 && chdir(argv[1]) == 0);
    int tmp = open("tmp", O_RDONLY), new = open("new", O_RDONLY), cur = open("cur", O_RDONLY);
    double began = now();
    for (int n = 0; n < count; n++) {
        sprintf(name, "%016d.P4242R0123456789abcdef.c", n);
        int fd = openat(tmp, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        need(fd >= 0 && write(fd, data, size) == size && close(fd) == 0 && renameat(tmp, name, new, name) == 0);
    }
    double between = now();
    for (int n = 0; n < count; n++) {
        sprintf(name, "%016d.P4242R0123456789abcdef.c", n);
        sprintf(other, "%s,c=0123456789abcdef0123456789abcdef.%016d:2,P4242", name, n);
        need(renameat(new, name, cur, other) == 0);
        int fd = openat(cur, other, O_RDONLY | O_CLOEXEC);
        need(fd >= 0 && read(fd, data, size + 1) == size && close(fd) == 0 && unlinkat(cur, other, 0) == 0);
    }
    printf("%.9f %.9f\n", between - began, now() - between);
    return 0;
}
"""


class BareLoop:
    """Puts and takes by nothing but the calls, by directory descriptor, with names as long as ours and made beforehand."""

    def __init__(self, folder: Path, size: int) -> None:
        for box in ("tmp", "new", "cur"):
            (folder / box).mkdir(parents=True, exist_ok=True)
        self._tmp, self._new, self._cur = (os.open(folder / box, os.O_RDONLY) for box in ("tmp", "new", "cur"))
        self._data = b"x" * size
        self._number = 0

    def _names(self, count: int) -> list[str]:
        self._number += count
        return [f"{self._number - count + turn:016d}.P4242R0123456789abcdef.py" for turn in range(count)]

    def put(self, count: int, *, durable: bool = False) -> float:
        """Seconds for open, write, close, rename (durable: and both syncs) of each of ``count``."""
        names, data, tmp, new = self._names(count), self._data, self._tmp, self._new
        began = time.perf_counter()
        for name in names:
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=tmp)
            os.write(fd, data)
            if durable:
                os.fsync(fd)
            os.close(fd)
            os.rename(name, name, src_dir_fd=tmp, dst_dir_fd=new)
            if durable:
                os.fsync(new)
        return time.perf_counter() - began

    def take(self) -> float:
        """Seconds for rename, open, read, close, unlink of each that was put."""
        tail = ",c=0123456789abcdef0123456789abcdef.1795220920443125:2,P4242"
        pairs = [(name, name + tail) for name in sorted(os.listdir(self._new))]
        new, cur, size = self._new, self._cur, len(self._data) + 1
        began = time.perf_counter()
        for name, other in pairs:
            os.rename(name, other, src_dir_fd=new, dst_dir_fd=cur)
            fd = os.open(other, os.O_RDONLY, dir_fd=cur)
            os.read(fd, size)
            os.close(fd)
            os.unlink(other, dir_fd=cur)
        return time.perf_counter() - began

    def close(self) -> None:
        for fd in (self._tmp, self._new, self._cur):
            os.close(fd)


class CompiledLoop:
    """The same in C, compiled on the spot. ``program`` is None where there is no compiler."""

    def __init__(self, folder: Path, at: Path) -> None:
        self._at = at
        for box in ("tmp", "new", "cur"):
            (at / box).mkdir(parents=True, exist_ok=True)
        self.program: Path | None = None
        if (compiler := shutil.which("cc") or shutil.which("gcc")) is not None:
            source = folder / "floor.c"
            source.write_text(_C)
            self.program = folder / "floor"
            subprocess.run([compiler, "-O2", "-o", self.program, source], check=True)

    def run(self, count: int, size: int) -> tuple[float, float]:
        """Seconds for the puts and for the takes of ``count`` messages."""
        assert self.program is not None
        out = subprocess.run([self.program, self._at, str(count), str(size)], check=True, capture_output=True, text=True).stdout
        put, take = out.split()
        return float(put), float(take)
