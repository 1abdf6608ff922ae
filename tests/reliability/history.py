"""Histories that all processes of a storm wrote, and the check whether they amount to what was promised.

Each incarnation of an actor appends to a file of its own, one ``write(2)`` a line, before and after each step: what was written
survives a SIGKILL. So it is known of each step whether it had returned, was under way, or had not begun. A line is
``<CLOCK_MONOTONIC ns> <word> …``:

    P? uid …                puts begin            P! uid id …         they returned
    C?                      a claim begins        B n uid id attempt key    the n-th claim of this process returned
    A? n … / A! n …         an ack                R? n / R! n         a release
    J? n / J! n             a reject by the consumer
    L n …                   ``ClaimLost``         V?  V! id …         a recover
    Q? key … / Q! key …     a requeue, which takes nothing from the living
    F? key … / F! key …     a forced one          U? / U!             an undo
    O action done untouched what an operator did to how many messages
    N id …                  what was rejected is about to begin anew, its attempts with it
    K actor ns              the actor, or all whose names begin so, were alive at ``ns`` and killed then
    X words                 an error that nobody expected
    END                     the actor came to its end

A key is ``<token>.<µs>``, the one name of one claim; ``uid`` is what the message itself says.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from spooltop.engine.names import parse

__all__ = ["Found", "History", "body", "check", "key_of", "uid_of"]


def body(uid: str) -> bytes:
    """Content of the message ``uid``: so long, and of so many lengths, that a part of it is recognised as one."""
    return f"{uid}:{uid * (20 + len(uid) * 7 + ord(uid[-1]) % 40)}".encode()


def uid_of(data: bytes) -> str | None:
    """Returns the uid of a message; None where it is not whole."""
    uid = data.partition(b":")[0].decode("ascii", "replace")
    return uid if uid and body(uid) == data else None


def key_of(name_in_cur: str) -> str:
    parsed = parse(name_in_cur, claimed=True)
    return f"{parsed.token}.{parsed.claimed_us}"


class History:
    """The file of one incarnation of an actor."""

    def __init__(self, folder: Path, actor: str) -> None:
        self._fd = os.open(folder / actor, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def tell(self, *words: object) -> None:
        os.write(self._fd, f"{time.monotonic_ns()} {' '.join(map(str, words))}\n".encode())

    def follow(self, work: Callable[[History], None]) -> None:
        """Does ``work`` and writes down how it ended."""
        try:
            work(self)
        except BaseException:
            self.tell("X", traceback.format_exc().replace("\n", " | "))
            raise
        self.tell("END")


@dataclass(slots=True)
class HeldClaim:
    """Claim as its holder saw it. ``sure`` is the last moment (ns) at which it certainly still had it; ``how`` it ended: acked,
    released, lost, killed, or killed in an ``ack`` (cut); open as long as no end is known."""

    begin: int
    actor: str
    attempt: int
    id: str
    key: str
    sure: int = 0
    how: str = "open"


@dataclass(slots=True)
class Message:
    """All that is known of one: the id it was given, and every hold."""

    id: str | None = None
    confirmed: bool = False
    holds: list[HeldClaim] = field(default_factory=list)


@dataclass
class Found:
    """``wrong`` names what was promised and does not hold."""

    messages: int = 0
    unconfirmed: int = 0
    wrong: list[str] = field(default_factory=list)
    redelivered: Counter[str] = field(default_factory=Counter)
    """Deliveries after the first, by what explains them: a kill, a release, a force."""
    kills: int = 0
    requeued: int = 0
    undone: int = 0
    operated: Counter[str] = field(default_factory=Counter)
    """Actions reported by operators: an action → messages; ``untouched``: those they found gone, changed or alive."""
    children: Counter[str] = field(default_factory=Counter)
    """Children that were forked beside a claim, by how they ended."""


@dataclass
class _Taken:
    """Operations on claims by operators: key → when (ns)."""

    done: dict[str, int] = field(default_factory=dict)
    forced: dict[str, int] = field(default_factory=dict)
    anew: set[str] = field(default_factory=set)
    """Ids of what was rejected and began anew."""


def check(folder: Path, standing: Iterable[str], *, drained: bool = True) -> Found:
    """``standing`` are the uids of what is still in the spool, in any box, when all came to an end; nothing may be where it was
    to be ``drained``."""
    found = Found()
    left = Counter(standing)
    found.wrong += [f"{uid} is there {times} times" for uid, times in left.items() if times > 1]
    files = {path.name: path for path in folder.iterdir()}
    killed = _kills(files, found)
    taken = _taken(files, found)
    messages: dict[str, Message] = defaultdict(Message)
    tried: set[str] = set()
    hidden = 0
    nameless: list[HeldClaim] = []
    for actor, path in files.items():
        ended, pending = False, False
        holds: dict[int, HeldClaim] = {}
        acking: set[int] = set()
        for at, word, rest in _lines(path):
            pending = word == "C?"
            if word == "P?":
                tried.update(rest)
            elif word == "P!":
                for uid, id in zip(rest[::2], rest[1::2], strict=True):
                    message = messages[uid]
                    message.id, message.confirmed = id, True
            elif word == "B":
                hold = holds[int(rest[0])] = HeldClaim(at, actor, int(rest[3]), rest[2], rest[4])
                if rest[1] == "-":
                    nameless.append(hold)
                else:
                    messages[rest[1]].holds.append(hold)
            elif word in ("A?", "R?", "J?"):
                for number in map(int, rest):
                    holds[number].sure = at
                    if word == "A?":
                        acking.add(number)
                    else:
                        holds[number].how = "released" if word == "R?" else "rejected"
            elif word in ("A!", "L"):
                for number in map(int, rest):
                    hold = holds.pop(number)
                    hold.how = "acked" if word == "A!" else "lost"
                    hold.sure = hold.sure or hold.begin
            elif word in ("R!", "J!"):
                holds.pop(int(rest[0]))
            elif word == "D":
                found.children[rest[0]] += 1
            elif word == "D!":
                found.wrong.append(f"a child of {actor} failed: {' '.join(rest)}")
            elif word == "X":
                found.wrong.append(f"{actor}: {' '.join(rest)}")
                ended = True
            elif word == "END":
                ended = True
        died = min((at for prefix, at in killed if actor.startswith(prefix)), default=None)
        if not ended and died is None:
            found.wrong.append(f"{actor} ended and nobody killed it")
        if died is not None and pending and not ended:
            hidden += 1  # a claim may have been made and not been written down: one
        for number, hold in holds.items():
            if died is not None and not ended:
                hold.how = "cut" if number in acking else "killed"
                hold.sure = hold.sure or died
            elif hold.how == "open":
                found.wrong.append(f"{actor} ended and had not ended its claim on {hold.id}")
    _name(messages, nameless, found, drained)
    _judge(messages, tried, taken, hidden, left.keys(), found, drained)
    return found


def _lines(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.endswith("\n"):  # one write(2) is whole or not there; a full disk is another matter
                at, word, *rest = line.split()
                yield int(at), word, rest


def _kills(files: dict[str, Path], found: Found) -> list[tuple[str, int]]:
    """Returns, for each kill, the prefix of the actors' names and the last moment (ns) at which they were alive."""
    killed: list[tuple[str, int]] = []
    for path in files.values():
        killed += [(rest[0], int(rest[1])) for _, word, rest in _lines(path) if word == "K"]
    found.kills = len(killed)
    return killed


def _taken(files: dict[str, Path], found: Found) -> _Taken:
    taken = _Taken()
    for path in files.values():
        forcing: list[str] = []
        asked = 0
        for at, word, rest in _lines(path):
            if word == "F?":
                forcing, asked = rest, at
            elif word == "F!":
                forcing = []
                for key in rest:
                    taken.forced.setdefault(key, asked)
            elif word == "Q!":
                found.requeued += len(rest)
                taken.done.update((key, at) for key in rest)
            elif word == "O":
                found.operated.update({rest[0]: int(rest[1]), "untouched": int(rest[2])})
            elif word == "N":
                taken.anew.update(rest)
            elif word == "U!":
                found.undone += 1
        for key in forcing:  # killed in between: it may have been done
            taken.forced.setdefault(key, asked)
    return taken


def _name(messages: dict[str, Message], nameless: list[HeldClaim], found: Found, drained: bool) -> None:
    """Gives the claims that were lost before anybody could read them to their messages."""
    if not nameless:
        return
    uids = {id: uid for uid, message in messages.items() for id in (message.id, *(hold.id for hold in message.holds)) if id}
    for hold in nameless:
        if hold.id in uids:
            messages[uids[hold.id]].holds.append(hold)
        elif hold.how == "lost" and drained:
            found.wrong.append(f"{hold.id} was taken from {hold.actor} and never seen again")


def _judge(
    messages: dict[str, Message], tried: set[str], taken: _Taken, hidden: int, standing: Set[str], found: Found, drained: bool
) -> None:
    wrong = found.wrong
    unseen = 0
    for uid, message in messages.items():
        found.messages += message.confirmed
        holds = sorted(message.holds, key=lambda hold: hold.begin)
        ends = Counter(hold.how for hold in holds)
        if uid not in tried:
            wrong.append(f"{uid} was never put")
        if len({message.id, *(hold.id for hold in holds)} - {None}) > 1:
            wrong.append(f"{uid} has two ids")
        # Once somebody held it, it was delivered, whatever its producer heard. Only the last hold may have ended it.
        delivered = message.confirmed or bool(holds)
        if delivered and (not holds or holds[-1].how not in ("acked", "cut")) and not ends["acked"] and uid not in standing:
            wrong.append(f"{uid} is lost")
        if ends["acked"] > 1 or (ends["acked"] and uid in standing):
            wrong.append(f"{uid} was acked and is there again")
        if uid in standing and drained:
            wrong.append(f"{uid} is left over")
        anew = any(hold.id in taken.anew for hold in holds)
        for hold in holds:
            if hold.how == "lost" and hold.key not in taken.forced:
                wrong.append(f"{uid} was taken from {hold.actor}, which lived, and nobody forced it")
            if taken.done.get(hold.key, hold.sure) < hold.sure:
                wrong.append(f"{uid} was requeued from {hold.actor}, which lived")
        for before, after in pairwise(holds):
            forced = taken.forced.get(before.key)
            if after.begin < (before.sure if forced is None else min(before.sure, forced)):
                wrong.append(f"{uid} was held by {before.actor} and {after.actor} at once")
            if before.how == "acked":
                wrong.append(f"{uid} was acked by {before.actor} and given to {after.actor}")
            elif before.how in ("killed", "cut"):
                found.redelivered["a kill"] += 1
            elif before.how == "released":
                found.redelivered["a release"] += 1
            elif before.how == "rejected" and anew:
                found.redelivered["a redrive"] += 1
            elif forced is not None:
                found.redelivered["a force"] += 1
            else:
                wrong.append(f"{uid} came again to {after.actor}, and nothing explains it")
            if after.attempt <= before.attempt and not anew:
                wrong.append(f"{uid} came again as attempt {after.attempt} after {before.attempt}")
        if holds and not anew:
            missing = holds[-1].attempt - len(holds)
            unseen += max(0, missing)
            if missing < 0:
                wrong.append(f"{uid} was held {len(holds)} times, the last as attempt {holds[-1].attempt}")
    found.unconfirmed = len(tried) - found.messages
    found.redelivered["a kill"] += unseen
    if unseen > hidden:
        wrong.append(f"{unseen} claims were made that nobody wrote down, but only {hidden} claimers were killed while claiming")
