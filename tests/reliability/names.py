"""Hostile names through everything that shows or takes one: the drawings, a real terminal, plain output, JSON, the operations.

What is drawn is printable, no wider than asked, and the cells that a terminal shows of it are the ones that were meant. What is
printed has no control character but its line ends. Each message is acted on by the id that ``ls --json`` gave, and comes back
under the same bytes.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pyte
from msgspec.structs import replace

from spooltop.cli.context import Terminal
from spooltop.cli.main import run as command
from spooltop.cursors.draw import cursor_table
from spooltop.cursors.model import CursorSection
from spooltop.engine import Spool
from spooltop.engine import names as grammar
from spooltop.locks.draw import lock_table
from spooltop.model.backend import Capabilities
from spooltop.model.plan import Confirm, ItemResult, Outcome, Plan, Refusal, Result, RowItem, Selection
from spooltop.model.redact import Redactor
from spooltop.model.snapshot import Snapshot
from spooltop.model.vocabulary import (
    Action,
    Box,
    Holders,
    Holding,
    Lock,
    LockHolder,
    Owner,
    Payload,
    Row,
    Verdict,
    escape,
    unescape,
)
from spooltop.operate.operations import id_word
from spooltop.tui.commands import CommandContext, View
from spooltop.tui.draw.elements import Line, Moment, crop, header, in_ascii, line_text, line_width, notice_lines, problem_lines
from spooltop.tui.draw.lists import columns_for, detail, list_header, row_line
from spooltop.tui.messages import PayloadRead
from spooltop.tui.screens.base import PaletteScreen
from spooltop.tui.screens.follow import FollowScreen, HoldersScreen
from spooltop.tui.screens.plan import PlanScreen, ResultScreen
from tests.scratch import scratch

from ..snapshots import values
from ..snapshots.values import NOW, ZONE
from .figures import Figure
from .hostile import LONGEST, SECRET, TOKEN, made_name, made_payload

MOMENT = Moment(NOW, ZONE)

__all__ = ["BAR", "NAME", "run"]

NAME = "hostile names and payloads through every view, plain output, JSON and every operation"
BAR = "0 interpreted, 0 raw bytes, all acted on by the id that was printed"

MANY, FEW = 100_000, 120
PAYLOADS, FEW_PAYLOADS = 1_000, 60
_SAID = 50
"""So many of what is wrong at a time are said."""
GROUP = 250
"""Messages that stand in a spool at a time."""
SHOWN_TOGETHER = 10
LOCKS = 50
"""Lock files at a time: of more than 64 in one place the first are shown."""
WIDTHS = (40, 80, 161)
CLAIM_TAIL = b":2,P4194999"
"""A pid beyond the highest: of nobody."""


class ShownPlan(PlanScreen):
    """A plan that can be confirmed, without a window."""

    early = False


@cache
def snapshot() -> Snapshot:
    return values.trouble()


def drawn(names: Sequence[str], data: bytes, width: int) -> Iterator[Line]:
    """Everything that a screen may show of some names."""
    rows = [
        Row(
            key=("cur", name), box=Box.CUR, id=name, name=name, source=other, verdict=Verdict.DEAD, evidence=other, note=other,
            reason=other, owner=Owner(host=other, pid=3, command=other, user=name),
        )
        for name, other in zip(names, reversed(names), strict=True)
    ]  # fmt: skip
    name, other = names[0], names[-1]
    for at, row in enumerate(rows):
        for box in (list(Box)[at % len(Box)], list(Box)[(at + 1) % len(Box)]):
            yield row_line(row, columns_for(box, width), MOMENT)
        payload = Payload(data, len(data) + 9, True, ((row.id, row.id),)) if at == 0 else None
        yield from detail(row, PayloadRead(row.key, payload), width, 20, moment=MOMENT)
    items = [RowItem(row, at, row.id) for at, row in enumerate(rows)]
    refused = [Refusal(row, row.id, True) for row in rows]
    plan = Plan(
        items, refused, (other,), operation="c41d0a7e92", action=Action.REQUEUE, target=values.TARGET, made_at=NOW,
        selection=Selection(box=Box.CUR), confirm=Confirm.SMALL, command=("x", *names),
    )  # fmt: skip
    session = SimpleNamespace(
        now=lambda: NOW, zone=lambda: ZONE, snapshot=snapshot(), control=SimpleNamespace(who_has="who has")
    )  # fmt: skip
    planning = ShownPlan(session, plan.action, plan.selection)
    planning.plan = plan
    yield from planning.draw(width, 60)
    results = [ItemResult(name, name, Outcome.DONE), *(ItemResult(one, one, Outcome.FAILED, one) for one in names)]
    undo = "spooltop", "undo", values.TARGET, plan.operation
    result = Result(plan.operation, plan.action, values.TARGET, NOW, results, undo=undo, notes=(name,))
    for cursor in (None, RowItem(replace(rows[0], id=other), 0)):
        yield from ResultScreen(session, result, NOW, cursor).draw(width, 60)
    holder = LockHolder(1, other, name, NOW)
    base = snapshot()
    section = CursorSection(NOW, other, (name,), (holder,))
    cursors = tuple(replace(base.cursors[0], source=one, shown=escape(one), file=one, history=(section,)) for one in names)
    locks = tuple(Lock(one, "flock", (holder,), (LockHolder(None),), "blocked", one) for one in names)
    problems = tuple(replace(base.problems[0], text=one, subject=one) for one in names)
    hostile = replace(
        base, cursors=cursors, problems=problems, not_judged=(other,), not_visible=(other,),
        observation=replace(base.observation, target=name, locks=locks),
    )  # fmt: skip
    yield from cursor_table(hostile, width, 40, MOMENT)
    yield from lock_table(hostile, width, 40)
    yield from problem_lines(hostile, width, 40)
    yield from header(hostile, width, name, MOMENT)
    yield list_header(hostile, "Claims", 3, width, MOMENT, filter=name)
    holding = Holding(7, other, name, "flock, holds", NOW, of=escape(other))
    holders = HoldersScreen(session, name, name)
    holders.holders, holders.looked_at = Holders(escape(name), (holding,), False, (other,)), NOW
    yield from holders.text(width)
    yield from notice_lines(f"copied: {escape(name)}", width)
    yield from notice_lines(name, width)
    closed = replace(hostile, observation=replace(hostile.observation, capabilities=Capabilities.nothing(other)))
    about = CommandContext(View.CLAIMS, snapshot=closed, row=rows[0], rows=1)
    for typed in (name, ""):
        actions = PaletteScreen(session, about)
        actions.typing.insert(typed)
        actions.message = other
        yield from [*actions.draw(width, 39), *actions.bottom_lines(width)]
    following = FollowScreen(session, [name])
    following.now, following.began = {name: other}, NOW
    yield from following.draw(width, 20)


def judged_lines(lines: Sequence[Line], width: int) -> list[str]:
    """Returns what is wrong with the drawn lines: too wide, not printable, or not ASCII with ``--ascii``."""
    wrong = []
    for line in lines:
        text = line_text(line)
        if line_width(line) > width:
            wrong.append(f"wider than {width}: {text!r}")
        if not text.isprintable():
            wrong.append(f"not printable: {text!r}")
        if not line_text(in_ascii(line)).isascii():
            wrong.append(f"not ASCII with --ascii: {text!r}")
    return wrong


def judged_cells(lines: Sequence[Line], width: int) -> list[str]:
    """Each line, written to a terminal, stays on its line and shows its own words."""
    wrong = []
    for start in range(0, len(lines), 50):
        some = lines[start : start + 50]
        screen = pyte.Screen(width + 2, len(some))
        stream = pyte.ByteStream(screen)
        for y, line in enumerate(some):
            stream.feed(f"\x1b[{y + 1};1H{_composed(line_text(line))}".encode())
        for y, line in enumerate(some):
            cells = "".join(screen.buffer[y][x].data for x in range(width + 2)).rstrip()
            if cells != (expected := _composed(line_text(line)).rstrip()):
                wrong.append(f"a terminal shows {cells!r} for {expected!r}")
        if screen.title or screen.icon_name:
            wrong.append("the title was set")
    return wrong


def _composed(text: str) -> str:
    """Normalises a character and the marks on it as pyte keeps them. Pyte ends a text at a mark of no combining class, which
    takes no cell for wcwidth(3) and terminals."""
    kept = (char for char in text if unicodedata.category(char) not in ("Mn", "Me") or unicodedata.combining(char))
    return unicodedata.normalize("NFC", "".join(kept))


def run_command(*words: str, given: str = "") -> tuple[int, str, str]:
    """The exit code, the output and the errors of a command."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    stdin = io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8")
    code = command(list(words), Terminal(stdin, out, err, {}), dashboard=lambda *_: 70)
    streams = []
    for stream in (out, err):
        stream.flush()
        raw = stream.buffer
        assert isinstance(raw, io.BytesIO)
        streams.append(raw.getvalue().decode())
    return code, streams[0], streams[1]


def raw(text: str) -> bool:
    return not text.replace("\n", "").isprintable()


class Acting:
    """A spool of hostile names, and what is done to all of them by what was printed."""

    def __init__(self, folder: Path, names: Sequence[bytes]) -> None:
        self.root, self.names, self.wrong = folder / "spool", names, list[str]()
        Spool.create(self.root, durable=False).close()
        # Dead, not forgotten: a claim that one of the names makes its own is else not given back by an undo.
        consumers = self.root / ".spooltop" / "consumers"
        consumers.mkdir(parents=True)
        (consumers / TOKEN.decode()).write_bytes(b"{}")

    def box(self, box: str) -> set[bytes]:
        return {name for name in os.listdir(os.fsencode(self.root / box)) if not name.startswith(b".")}

    def fill(self, box: str, tail: bytes = b"") -> set[bytes]:
        made = {name[: LONGEST - len(tail)] + tail for name in self.names}
        for name in made:
            with open(os.path.join(os.fsencode(self.root / box), name), "wb") as file:
                file.write(b"data")
            os.utime(os.path.join(os.fsencode(self.root / box), name), (1, 1))
        return made

    def command(self, *words: str, given: str = "", codes: Sequence[int] = (0,)) -> str:
        # A name as of mail makes the spool a mail folder, which its owner may want as well as an attacker.
        code, out, err = run_command(words[0], str(self.root), "--as", "spool", *words[1:], given=given)
        if code not in codes:
            self.wrong.append(f"{' '.join(words)} ended with {code}: {err[:300]} {out[-300:]}")
        if raw(out) or raw(err):
            self.wrong.append(f"{' '.join(words)} printed a control character")
        return out

    def listed(self, box: str, known: set[bytes]) -> list[str]:
        """The ids as ``ls --json`` tells them; each line names what is there."""
        ids = []
        for line in self.command("ls", "--box", box, "--json").splitlines():
            one = json.loads(line)
            ids.append(one["id"])
            if os.fsencode(unescape(one["name"])) not in known:
                self.wrong.append(f"ls names {one['name']!r}, which is not there")
        if len(ids) != len(known):
            self.wrong.append(f"ls lists {len(ids)} of {len(known)} in {box}")
        self.command("ls", "--box", box)
        return ids

    def acted(self, action: str, box: str, ids: Sequence[str], *more: str) -> str:
        """Applies one operation to all of them, by lines of ``ls --json``, and returns its id."""
        lines = "".join(json.dumps({"id": one}) + "\n" for one in ids)
        # By its number: nothing says who holds claims with such names.
        out = self.command(action, "--box", box, "-", f"--yes={len(self.box(box))}", "--json", *more, given=lines)
        try:
            result = json.loads(out.splitlines()[-1])
        except (ValueError, IndexError):
            self.wrong.append(f"{action} printed no JSON")
            return ""
        self.command(action, "--box", box, "-", "--dry-run", *more, given=lines, codes=(0, 1, 3, 4))
        return str(result["operation"])

    def is_in(self, box: str, wanted: set[bytes], after: str) -> None:
        found = self.box(box)
        if found != wanted:
            lost = sorted(wanted - found)[:3]
            more = sorted(found - wanted)[:3]
            self.wrong.append(f"after {after}, {box} has {len(found)} of {len(wanted)}: without {lost}, with {more}")

    def locks(self) -> None:
        for start in range(0, len(self.names), LOCKS):
            made = {name[: LONGEST - 5] + b".lock" for name in self.names[start : start + LOCKS]}
            self.make(self.root, made)
            paths = [json.loads(line)["path"] for line in self.command("locks", "--json").splitlines()]
            shown = {os.path.basename(os.fsencode(unescape(path))) for path in paths}
            if not made <= shown:
                self.wrong.append(f"locks lists {len(made & shown)} of {len(made)}, without {sorted(made - shown)[:3]}")
            self.command("locks")
            for name in made:
                os.unlink(os.path.join(os.fsencode(self.root), name))

    def tickets(self) -> None:
        """Checks that in a queue of these names, some of them almost tickets, only one is a ticket: that of this process."""
        queue = self.root.parent / "queue"
        queue.mkdir()
        pid, out = os.getpid(), ""
        self.make(queue, self.names)
        self.make(queue, {(b"%020d.%d." % (1, pid) + name)[:LONGEST] for name in self.names})
        self.make(queue, [b"seq", b"%020d.%d.%s" % (2, pid, b"a" * 32)])
        for words in ((), ("--json",)):
            code, out, err = run_command("tickets", str(queue), *words)
            if code or raw(out) or raw(err):
                self.wrong.append(f"tickets ended with {code} or printed a control character: {out[:200]!r} {err[:200]!r}")
        if [one["pid"] for one in json.loads(out)["holders"]] != [pid]:
            self.wrong.append(f"a name that is no ticket counts as one: {out[:300]!r}")

    @staticmethod
    def make(folder: Path, names: Iterable[bytes]) -> None:
        for name in names:
            with open(os.path.join(os.fsencode(folder), name), "wb"):
                pass

    def all(self) -> None:
        claims = self.fill("cur", CLAIM_TAIL)
        ids = self.listed("cur", claims)
        self.command("status")
        self.command("status", "--json")
        undo = self.acted("requeue", "cur", list(dict.fromkeys(ids)))
        self.is_in("cur", set(), "requeue")
        self.is_in("new", {os.fsencode(back(os.fsdecode(name))) for name in claims}, "requeue")
        self.command("undo", undo, "--yes")
        self.is_in("cur", claims, "the undo of a requeue")
        self.acted("purge", "cur", list(dict.fromkeys(ids)))
        self.is_in("cur", set(), "purge")
        waiting = self.fill("new")
        ids = self.listed("new", waiting)
        for action, aside in (("hold", "held"), ("purge", "trash")):
            undo = self.acted(action, "new", ids)
            self.is_in("new", set(), action)
            self.command("ls", "--box", aside, "--json")
            self.command("ls", "--box", aside)
            self.command("undo", undo, "--yes")
            self.is_in("new", waiting, f"the undo of {action}")
        for one in ids[:: max(1, len(ids) // 5)]:
            word = id_word(unescape(one))
            self.command("show", "--", word)
            self.command("show", "--json", "--", word)
            self.command("purge", "--box", "new", "--yes", "--", word)
            waiting.discard(os.fsencode(unescape(one)))
        self.is_in("new", waiting, "purge by the word of an id")
        self.command("ops")
        self.command("ops", "--json")
        self.command("purge", "--box", "trash", "ALL", "--yes")


def back(claim: str) -> str:
    """Returns the name of a claim once it is requeued: its attempt is counted where its id is one of ours."""
    name = grammar.parse(claim, claimed=True)
    if not name.own:
        return name.base
    assert not name.attempts, claim
    return f"{name.base},n=1,e=died"


def group(task: tuple[int, int]) -> list[str]:
    """Returns what is wrong with the names of these numbers."""
    start, stop = task
    raws = [made_name(number) for number in range(start, stop)]
    names = [os.fsdecode(one) for one in raws]
    wrong = [f"{one!r} does not come back from what is shown" for one in names if unescape(escape(one)) != one]
    wrong += [f"{one!r} is shown raw" for one in names if not escape(one).isprintable()]
    for at in range(0, len(names), SHOWN_TOGETHER):
        width = WIDTHS[(start + at) // SHOWN_TOGETHER % len(WIDTHS)]
        lines = [crop(line, width) for line in drawn(names[at : at + SHOWN_TOGETHER], raws[at], width)]  # as widgets paint them
        wrong += judged_lines(lines, width)
        if at % (5 * SHOWN_TOGETHER) == 0:
            wrong += judged_cells(lines, width)
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        acting = Acting(Path(folder), raws)
        acting.all()
        acting.locks()
        acting.tickets()
    return wrong + acting.wrong


def payloads(count: int) -> list[str]:
    """Returns what is wrong with generated payloads: shown raw, or with a secret that should be redacted."""
    wrong = []
    row = Row(key=("new", 1), box=Box.NEW, id="x", name="x")
    for number in range(count):
        data = made_payload(number)
        hidden = Redactor(["token"]).data(data)
        secret = SECRET.format(number)[:5].encode()
        if secret in hidden:
            wrong.append(f"payload {number} tells its secret: {data[:300]!r} {hidden[:300]!r}")
        width = WIDTHS[number % len(WIDTHS)]
        lines = detail(row, PayloadRead(row.key, Payload(hidden, len(hidden), False)), width, 60, moment=MOMENT)
        wrong += judged_lines(lines, width)
    return wrong


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    names, some = (FEW, FEW_PAYLOADS) if quick else (MANY, PAYLOADS)
    tasks = [(start, min(start + GROUP, names)) for start in range(0, names, GROUP)]
    wrong: list[str] = []

    def add(found: Sequence[str]) -> None:
        wrong.extend(found)
        for words in found[:_SAID]:
            say(words)

    add(payloads(some))
    if quick:
        for task in tasks:
            add(group(task))
    else:
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
            for number, found in enumerate(pool.map(group, tasks), 1):
                add(found)
                if number % 40 == 0:
                    say(f"{number} of {len(tasks)}, {len(wrong)} wrong")
    seen = f"{some:,} payloads besides; 12 views, palette, messages, locks, tickets, requeue, hold, purge, undo of each name"
    return Figure(NAME, BAR, names, len(wrong), explained=seen)
