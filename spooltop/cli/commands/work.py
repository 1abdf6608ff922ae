"""The worker: runs a command for each message. It has one thread, which starts commands, waits for signals and arrivals, and ends
claims.

Each command runs in its own process group with the message as its stdin. It inherits a copy of the consumer's presence
descriptor where the queue has one, so that the claim lasts as long as the command runs. Where it has none, the claim of a killed
worker is delivered again while its command still ran: a guard ends the command then.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct, field

from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.engine.consumer import backoff
from spooltop.engine.waiting import LONGEST, nonblocking_pipe
from spooltop.errors import ClaimLost, Refused, SpoolFull, SpooltopError, Unavailable, UsageError
from spooltop.model import Arrivals, Clock, Pause, Queue, QueueClaim, duration, escape, parse_age, pause_words, printable
from spooltop.settings import load

from ..context import Arguments, Terminal, signal_name, signals_handled, wait_for_wakeup
from .create import open_for

# Ends the commands of a worker that was killed, where nothing else says that they still run.

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


REJECTS = (65, 100)
"""Exit codes that mean "never again": EX_DATAERR of sysexits.h, and the permanent failure of qmail-command(8)."""
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL for a command that has to end."""
RECOVER_EVERY = 5.0
"""Seconds between two checks for dead consumers while idle."""
PAUSE_CHECK = 0.5
"""Seconds between two checks whether a paused queue was resumed."""
BLINK = 0.001
"""Timeout in seconds. A claim with any timeout also checks that the boxes are still those that were opened."""


def work(args: Arguments) -> int:
    if not args.command:
        raise UsageError("work: no command given", "spooltop work PATH -- CMD …")
    if args.jobs < 1:
        raise UsageError("work: --jobs needs a number from 1 up")
    if shutil.which(args.command[0]) is None:
        raise UsageError(f"work: command not found: {args.command[0]!r}", "give its path, or fix PATH")
    timeout = None if args.timeout is None else parse_age(args.timeout)
    with open_for(args, action="work", hosts=load(args.terminal.environ).claims_hosts) as queue:
        worker = CommandWorker(
            queue,
            args.command,
            args.terminal,
            jobs=args.jobs,
            timeout=timeout,
            drain=args.drain,
            recover=not args.no_recover,
            quiet=args.quiet,
        )
        return worker.run()


class _Job(Struct):
    """A running command. ``deadline`` is on the worker's tick; ``ended_by`` says why it was asked to end."""

    claim: QueueClaim
    process: subprocess.Popen[bytes]
    started: float
    deadline: float | None
    ended_by: str = ""
    timed_out: bool = False

    def kill(self, number: int) -> None:
        """Sends a signal to all processes of its group that still exist."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def has_ended(self) -> bool:
        """True for a command that has ended; it is not reaped."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def how_it_ended(self, code: int) -> str | None:
        """End of the attempt as it is written in the name of the message: ``exit-1``, ``signal-9``, ``timeout``. None if the
        command was ended together with the worker, which says nothing about the message."""
        if self.ended_by:
            return "timeout" if self.timed_out else None
        return f"signal-{-code}" if code < 0 else f"exit-{code}"


class CommandWorker(Struct):
    """Runs ``command`` for each message until it receives a signal to stop or, with ``drain``, until no message is left to take.
    While the queue is paused it waits, with ``drain`` too if messages are left.

    ``tick`` returns monotonic seconds.
    """

    queue: Queue
    command: Sequence[str]
    terminal: Terminal
    jobs: int = 1
    timeout: float | None = None
    drain: bool = False
    recover: bool = True
    quiet: bool = False
    tick: Clock = time.monotonic
    _running: list[_Job] = []
    _stops: int = 0
    _failures: int = 0
    _broken: SpooltopError | None = None
    _waits: set[str] = set()
    """Errors that it has said it waits for, since it could go on last."""
    _unsaid: list[tuple[_Job, int]] = []
    """Commands that ended while the queue did not answer, with their exit codes: their claims are still to be ended."""
    _kept: list[QueueClaim] = []
    """Claims that could not be ended: one that is dropped is handed back at once, and taken again."""
    _pause: Pause | None = None
    _recovered_at: float | None = None
    _guard: CommandGuard = field(default_factory=CommandGuard)
    _left_until: float | None = None

    def run(self) -> int:
        """Returns 0, or 1 if a drain left a message that was not done and that nobody is known to work on. If the worker cannot
        continue, it waits for the running commands and raises ``SpooltopError``."""
        watch = self.queue.arrivals()
        pipe, wakeup_fd = nonblocking_pipe()
        try:
            with signals_handled(self._signalled, watch.wake, wakeup_fd):
                while self._turn(watch, pipe):
                    pass
        finally:
            self._guard.close()
            watch.close()
            os.close(wakeup_fd)
            os.close(pipe)
        for job, _ in self._unsaid:
            self.terminal.error(f"{escape(job.claim.id)} ended while the server did not answer; it is delivered again")
        if self._broken is not None:
            raise self._broken
        return 1 if self.drain and self._failures and not self._stops else 0

    def _turn(self, watch: Arrivals, pipe: int) -> bool:
        """Runs one round: cleans up after commands that have ended, starts new ones, waits. False when the work is over."""
        self._reap()
        self._end_overdue()
        try:
            unsaid, self._unsaid = self._unsaid, []
            for job, code in unsaid:
                self._finish(job, code)
            if self._take():
                return True
            self._look_for_pause()
            over = self._stopping or (self.drain and self.queue.peek() is None and self._nothing_is_left())
        except Unavailable as error:
            over = self._stopping or self.drain
            if self.drain:
                self._broken = error
            self._wait_for(error, "the server")
        except (SpooltopError, OSError) as error:
            # What runs is waited for: a claim must not go back while its command works.
            self._broken = error if isinstance(error, SpooltopError) else SpooltopError(f"work: {error}", path=self.queue.name)
            over = True
        if over and not self._running:
            return False
        if self._stopping or len(self._running) >= self.jobs:
            wait_for_wakeup(pipe, self._next_deadline())
        else:
            watch.wait(min(self._next_deadline(), LONGEST if self._pause is None else PAUSE_CHECK))
        return True

    def _nothing_is_left(self) -> bool:
        """True where a drain is over. Claims of consumers that have ended come back with the end of their leases: these are
        waited for, and recovered. Other claims are named."""
        if self._running:
            return True
        others, now = self.queue.claims_of_others(), self.tick()
        waits = max((one.ends_in for one in others if one.ends_in is not None), default=None)
        if waits is not None and self.recover:
            self._left_until = now + waits + LONGEST if self._left_until is None else self._left_until
            if now < self._left_until:
                return False
        for one in others:
            self._failures += not one.is_running
            if not self.quiet:
                what = f"{one.number:,} claimed by {escape(one.holder)} {'is' if one.number == 1 else 'are'} left"
                self.terminal.error(f"{printable(self.queue.name)}: {what}: {printable(one.evidence)}")
        return True

    def _look_for_pause(self) -> None:
        """Says when the queue was paused, and when it was resumed."""
        before, self._pause = self._pause, self.queue.paused
        if self._pause is not None and self._pause != before:
            words = pause_words(self._pause, time.time())
            self.terminal.error(f"{printable(self.queue.name)} is paused {words}; waiting for spooltop resume")
        elif self._pause is None and before is not None and not self.quiet:
            self.terminal.error(f"{printable(self.queue.name)} was resumed")

    @property
    def _stopping(self) -> bool:
        return self._stops > 0 or self._broken is not None

    def _take(self) -> bool:
        """Starts as many commands as possible, and puts back the claims of dead consumers. True if there may be more to take."""
        started = False
        if self._recovered_at is None:
            self._recover()
        while not self._stopping and len(self._running) < self.jobs and self._start():
            started = True
        if started or self._stopping or len(self._running) >= self.jobs:
            return started
        return self._recover()  # idle, as far as what waits goes

    def _signalled(self) -> None:
        """Handles a signal to end: the first lets current messages finish, the second ends at once."""
        self._stops += 1

    def _start(self) -> bool:
        """Claims a message and starts the command on it; False if there is no message to take."""
        try:
            claim = self.queue.claim(timeout=0 if self._running else BLINK)
        except SpoolFull as error:
            if self.drain:
                raise
            self._wait_for(error, "space")
            return False
        if self._waits and not self.quiet:
            self.terminal.error(f"{printable(self.queue.name)} goes on")
        self._waits.clear()
        if claim is None:
            return False
        try:
            with claim.open() as message:
                inherited = self.queue.inherited_fds()
                if not inherited:
                    self._guard.start()
                process = subprocess.Popen(
                    self.command,
                    stdin=message,
                    env={
                        **self.terminal.environ,
                        "SPOOLTOP_ID": escape(claim.id),
                        "SPOOLTOP_ATTEMPT": str(claim.attempt),
                        "SPOOLTOP_SOURCE": escape(claim.source or ""),
                    },
                    pass_fds=inherited,
                    process_group=0,
                )
        except ClaimLost:
            return True  # taken away before it was begun
        except OSError as error:
            claim.release()
            what = f"work: {printable(self.command[0])} cannot be started: {os.strerror(error.errno or 0)}"
            raise SpooltopError(what, f"message {escape(claim.id)} was released") from error
        now = self.tick()
        self._running.append(_Job(claim, process, now, None if self.timeout is None else now + self.timeout))
        self._guard.watch(job.process.pid for job in self._running)
        return True

    def _wait_for(self, error: SpooltopError, what: str) -> None:
        """Says once what it waits for, and why."""
        if str(error) not in self._waits:
            self.terminal.error(f"{error}; waiting for {what}")
        self._waits.add(str(error))

    def _reap(self) -> None:
        for job in list(self._running):
            if not job.has_ended():
                continue
            if job.ended_by:
                job.kill(signal.SIGKILL)  # not reaped yet, so the number is still its own
            self._running.remove(job)
            self._guard.watch(one.process.pid for one in self._running)
            code = job.process.wait()
            self._finish(job, code)

    def _finish(self, job: _Job, code: int) -> None:
        claim = job.claim
        how = job.ended_by or (f"killed by {signal_name(-code)}" if code < 0 else f"exit {code}")
        try:
            if code == 0 and not job.ended_by:
                claim.ack()
                said = "done"
            elif code in REJECTS and not job.ended_by:
                claim.reject(how, ended=f"exit-{code}")
                said = f"rejected ({how})"
            else:
                delay = 0.0 if self._stops > 1 and job.ended_by else backoff(claim.attempt)
                claim.release(delay, ended=job.how_it_ended(code))
                last = claim.attempt >= MAX_ATTEMPTS
                said = f"rejected ({how}, the last attempt)" if last else f"released ({how}), again in {duration(delay)}"
        except ClaimLost as error:
            said = f"lost ({printable(str(error))})"
        except Unavailable as error:
            self._unsaid.append((job, code))
            self._wait_for(error, "the server")
            return
        except (SpooltopError, OSError) as error:
            said = f"kept ({how}; {printable(str(error))})"  # it is put back when this worker ends
            self._kept.append(claim)
            if isinstance(error, Refused):  # as all others would be: their commands would run in vain
                self._broken = error
        if said != "done":
            self._failures += 1
        if not self.quiet:
            source = f" {escape(claim.source)}" if claim.source else ""
            took = duration(self.tick() - job.started)
            self.terminal.err(f"spooltop: {escape(claim.id)}{source} attempt {claim.attempt} {said} after {took}")

    def _end_overdue(self) -> None:
        now = self.tick()
        for job in self._running:
            if job.has_ended():
                continue  # ended by itself, before it was asked to
            if not job.ended_by and self._stops > 1:
                self._end(job, "ended by a second signal", now)
            elif job.deadline is not None and now >= job.deadline:
                if job.ended_by:
                    job.kill(signal.SIGKILL)
                    job.deadline = None
                else:
                    job.timed_out = True
                    self._end(job, f"timed out after {duration(self.timeout)}", now)

    def _end(self, job: _Job, why: str, now: float) -> None:
        job.ended_by = why
        job.deadline = now + GRACE
        job.kill(signal.SIGTERM)

    def _next_deadline(self) -> float:
        """Seconds until a command has to be asked to end; at most an hour."""
        now = self.tick()
        return max(0.0, min([3600.0, *(job.deadline - now for job in self._running if job.deadline is not None)]))

    def _recover(self) -> bool:
        """Puts back the claims of dead consumers, at intervals. True if there were any."""
        if not self.recover:
            return False
        now = self.tick()
        ending = self.drain and not self._running
        if self._recovered_at is not None and now - self._recovered_at < RECOVER_EVERY and not ending:
            return False
        self._recovered_at = now
        found = self.queue.recover()
        if found and not self.quiet:
            for name in found:
                self.terminal.err(f"spooltop: {escape(name)} requeued, its consumer is dead")
        return bool(found)
