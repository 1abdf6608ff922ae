"""Ends the commands of a worker that was killed, where nothing else says that they still run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

__all__ = ["CommandGuard"]

_SCRIPT = """
pids=
while read -r line; do pids=$line; done
for pid in $pids; do kill -s TERM -- "-$pid"; done
for second in 1 2 3 4 5; do
  left=
  for pid in $pids; do kill -s 0 -- "-$pid" && left=1; done
  [ "$left" ] || exit 0
  sleep 1
done
for pid in $pids; do kill -s KILL -- "-$pid"; done
"""
"""Reads the process groups that run now, a line each time they change. The input ends with the worker, however that ends: what
runs then gets SIGTERM, and SIGKILL five seconds later, before a lease of ten has ended."""


class CommandGuard:
    """A shell in a session of its own, which outlives the worker. Its input is a pipe from the worker; no command inherits it. A
    command that a killed worker had started and not named yet, for less than a millisecond, is not ended. A request to the kernel
    (PR_SET_PDEATHSIG) would be kept by the command alone, not by what that starts, and Python makes none in a child without code
    between fork and exec, which is unsafe beside threads."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the shell unless it runs. Raises ``OSError``."""
        if self._shell is None or self._shell.poll() is not None:
            self.close()
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                start_new_session=True,
            )  # fmt: skip

    def watch(self, pids: Iterable[int]) -> None:
        """Says which process groups run now, by the pids of their leaders. Does nothing before ``start``."""
        if self._shell is None or self._shell.stdin is None:
            return
        try:
            self._shell.stdin.write(b"%s\n" % b" ".join(b"%d" % pid for pid in pids))
            self._shell.stdin.flush()
        except BrokenPipeError:
            self.close()  # somebody has killed it: the next command gets another

    def close(self) -> None:
        """Lets it end what it still watches; nothing, after a worker that has waited for its commands."""
        shell, self._shell = self._shell, None
        if shell is None:
            return
        try:
            shell.communicate()
        except BrokenPipeError:
            shell.wait()
