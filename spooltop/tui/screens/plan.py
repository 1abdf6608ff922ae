"""The screen of a plan: its items are pinned, listed and confirmed, then applied. Keys typed before it was seen do not count."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from textual.app import ComposeResult
from textual.events import Key, Resize
from textual.message import Message

from spooltop.errors import SpooltopError, UsageError
from spooltop.model import units
from spooltop.model.plan import Confirm, Item, Plan, Refusal, Result, Selection, warnings_of
from spooltop.model.vocabulary import Action, Box, Json, Row, Verdict, escape
from spooltop.operate.operations import effect_of, holds_poison, poison_words, shell_lines

from ..commands import WHOLE, command_for, plan_words
from ..context import CommandContext, View
from ..draw.frame import WIDEST, inner_width, note_lines, panel_frame
from ..draw.header import Zone, when
from ..draw.lists import owner_text
from ..draw.spans import BLANK, Line, Lines, Span, Style, crop, fitted, headed, join, labelled, line_width, paragraph, plain
from ..draw.text import clip, clip_left, pad, pad_left, safe, shown, wrap
from ..session import Session
from ..snapshot_thread import deliver, now_and_then
from ..terminal.lifecycle import printable
from .base import BACKSPACES, CONFIRMING, LEAVING, LineEdit, Panel, ScrollingScreen, T, early_words, footer_line
from .result import FOLLOWED_AT_MOST, FOLLOWS, ResultScreen, cursor_set

_MOST_REFUSALS = 4
_COMMAND_LINES = 3
_EFFECT = 22


def _noun(box: Box | None, n: int) -> str:
    word = {Box.CUR: "claim", Box.TMP: "file"}.get(box, "message") if box is not None else "message"
    return word if n == 1 else f"{word}s"


def plan_title(plan: Plan) -> str:
    """``Requeue 2 of 3 claims``."""
    rows = [item.row for item in plan.items[:1]] or [one.row for one in plan.refused[:1]]  # the first one: there may be a million
    box = rows[0].box if rows else plan.selection.box
    asked = plan.count + len(plan.refused)
    of = f" of {asked:,}" if plan.refused else ""
    by_force = ", by force" if plan.force else ""
    if plan.action is Action.SET_CURSOR:
        return f"Set the cursor of {safe(str(plan.options.get('source', '')))}{by_force}"
    if plan.undone is not None:
        return _undo_title(plan, asked, rows)
    if plan.action in WHOLE:
        return f"{plan.action.value.capitalize()} the spool"
    if plan.action is Action.UNLOCK:
        return f"Remove {plan.count:,}{of} stale {'lock' if asked == 1 else 'locks'}{by_force}"
    verb = "Delete" if plan.deletes else plan.action.value.capitalize()
    if holds_poison(plan):
        return f"{poison_words(plan).capitalize()} of {asked:,} {_noun(box, asked)}{by_force}"
    return f"{verb} {plan.count:,}{of} {_noun(box, asked)}{by_force}"


def _undo_title(plan: Plan, asked: int, rows: Sequence[Row]) -> str:
    """``Undo purge of 2 messages``, ``Undo setting cursor imessage``."""
    if plan.undone is Action.SET_CURSOR:
        return f"Undo setting cursor {safe(rows[0].id)}" if rows else "Undo setting a cursor"
    if plan.undone in WHOLE:
        return f"Undo {plan.undone} of the spool"
    what, noun = ("removing", "lock") if plan.undone is Action.UNLOCK else (str(plan.undone), "message")
    nouns = noun if asked == 1 else f"{noun}s"
    return f"Undo {what}: {plan.count:,} of {asked:,} {nouns}" if plan.refused else f"Undo {what} of {plan.count:,} {nouns}"


def plan_lines(
    plan: Plan,
    width: int,
    height: int,
    *,
    now: float,
    typed: str = "",
    zone: Zone = None,
    scroll: int = 0,
    busy: str = "",
    rate: str | None = None,
    early: bool = False,
) -> Lines:
    """A panel of at most ``height`` lines. The way to confirm is always at the bottom; the items are shortened first, shown from
    ``scroll`` on. ``typed`` is the number typed so far; ``busy`` says how far the work is, once confirmed; ``rate`` is the
    text of a rate being typed, else None. ``early``: no key confirms yet."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    head = paragraph(safe(effect_of(plan)), inner) if plan.count else []
    # What has words is none of many; a note says them again, for who reads notes alone.
    listed = {f"{item.words}." for item in plan.items} if plan.items and plan.items[0].words else set[str]()
    notes = [note for note in plan.notes if note not in listed]
    tail = [*_warnings(plan, inner), *_refusals(plan, inner), *note_lines(notes, inner)]
    foot = _foot(plan, inner, typed, busy, rate, early)
    room = max(1, height - 2 - len(foot))
    undoes = plan.action is Action.UNDO
    table = _table(plan.items, inner, max(2, room - len(head) - len(tail)), now, scroll, undoes=undoes) if plan.items else []
    middle = [*head, *table, *tail]
    if len(middle) > room:
        middle = [*middle[: room - 1], plain(f"… {len(middle) - room + 1} more lines; a taller window shows them", inner)]
    body = [*middle, *foot]
    return panel_frame(plan_title(plan), f"as of {when(plan.made_at, zone)}", body, width)[:height]


def _foot(plan: Plan, inner: int, typed: str, busy: str, rate: str | None, early: bool) -> Lines:
    lines: Lines = [BLANK]
    if plan.command and plan.count:
        ids = f", with its {plan.count:,} ids" if plan.command[-1] == "-" else ""
        without = ", without force" if plan.force else ""
        parts = wrap(f"copy as command{ids}{without}: {shown(shlex.join(plan.command))}", max(8, inner - 2))
        if len(parts) > _COMMAND_LINES:
            parts = [*parts[: _COMMAND_LINES - 1], clip(f"{parts[_COMMAND_LINES - 1]} {parts[_COMMAND_LINES]}", inner - 2)]
        lines += [fitted(inner, Style.KEY("  " if i else "c "), part) for i, part in enumerate(parts)]
    if rate is not None:
        asked = join("rate limit: ", Style.STRONG(f"{shown(rate)}_"))
        lines.append(fitted(inner, asked, Style.DIM("   50, 50/s, 1000/m; empty: no limit")))
        return lines
    if plan.rate_text:
        lines.append(fitted(inner, Style.KEY("s "), plan.rate_text))
    if busy:
        lines.append(fitted(inner, Style.WARN("working: "), shown(busy)))
        return lines
    lines.append(crop(_confirm(plan, typed, inner, early), inner))
    return lines


def _confirm(plan: Plan, typed: str, inner: int, early: bool) -> Line:
    cancel = Style.KEY("[Esc Cancel]")
    words = plan_words(plan)
    if plan.confirm is Confirm.NUMBER and not (early and not typed):
        number, so_far = Style.KEY(str(plan.count)), Style.STRONG(f"{shown(typed)}_")
        line = join("type ", number, f" to {words}: ", so_far)
        whole = join(cancel, "   ", line)
        return whole if line_width(whole) <= inner else line  # the typed text is more important than how to leave
    if plan.confirm is Confirm.NOTHING or not plan.count:
        return join(Style.KEY("[Esc Close]"), "   nothing to do")
    if early:
        return join(cancel, "   …")
    offered = plan.poison and not holds_poison(plan)
    hold = join("   ", Style.KEY("h"), f" {poison_words(plan)}") if offered else BLANK
    return join(cancel, "   ", Style.KEY(plan.confirm.value), f" {words}", hold)


def _table(items: Sequence[Item], inner: int, rows: int, now: float, scroll: int, *, undoes: bool) -> Lines:
    """A title and as many items as fit, from ``scroll`` on; the others are counted. Items that are not messages show their
    description. ``undoes``: with the box that each item moves back to."""
    if items[0].words:
        return [line for item in items for line in paragraph(shown(item.words), inner, Style.STRONG)][:rows]
    in_cur = items[0].row.box is Box.CUR and not undoes
    with_owner = in_cur and inner >= 56
    title = f"  {'held' if in_cur else 'age':>5}  {'tries':>5}  "
    if with_owner:
        title += f"{'owner':<18}"
    if undoes:
        title += f"{'effect':<{_EFFECT}}"
    else:
        title += f"{'verdict':<11}" if in_cur or items[0].row.box is Box.TMP else f"{'size':>7}  "
    lines = [plain(f"{title}message", inner, Style.DIM)]
    fits = max(1, rows - 1)
    if len(items) > fits:
        fits = max(1, fits - 1)
    scroll = max(0, min(scroll, len(items) - fits))
    lines += [_item_line(item, inner, now, with_owner, undoes) for item in items[scroll : scroll + fits]]
    below = len(items) - scroll - fits
    if len(items) > fits:
        above = f", {scroll:,} above" if scroll else ""
        lines.append(plain(f"  … {below:,} more below{above}", inner, Style.DIM))
    return lines


def _item_line(item: Item, inner: int, now: float, with_owner: bool, undoes: bool) -> Line:
    row = item.row
    in_cur = row.box is Box.CUR and not undoes
    age = (units.at_most if in_cur and row.since_is_bound else units.age)(row.in_box_age(now) if in_cur else row.age(now))
    tries = "—" if row.attempt is None else str(row.attempt)
    sign = Style.WARN("! " if item.warning else "  ")
    text = f"{pad_left(age, 5)}  {pad_left(tries, 5)}  "
    if with_owner:
        text += pad(clip(owner_text(row.owner), 17), 18)
    parts: list[Span] = [sign, Span(text)]
    if undoes:
        dead = row.verdict is Verdict.DEAD
        verdict = "" if row.verdict is None else f", {row.verdict.value.upper() if dead else row.verdict.value}"
        parts.append(Span(pad(f"{shown(row.evidence)}{verdict}", _EFFECT), Style.BAD if dead else Style.NORMAL))
    elif in_cur or row.box is Box.TMP:
        parts.append(_verdict(row))
    else:
        parts.append(Span(f"{units.size(row.size):>7}  "))
    used = sum(len(part.text) for part in parts)
    parts.append(Span(clip_left(safe(row.id), max(4, inner - used))))
    return crop(parts, inner)


def _verdict(row: Row) -> Span:
    word = row.verdict.value if row.verdict is not None else "—"
    dead = row.verdict is Verdict.DEAD
    return Span(pad(word.upper() if dead else word, 11), Style.BAD if dead else Style.NORMAL)


def _warnings(plan: Plan, inner: int) -> Lines:
    counted = warnings_of(plan.items)
    lines: Lines = []
    for warning, n in list(counted.items())[:_MOST_REFUSALS]:
        times = f"{n:,}: " if n > 1 else ""
        lines += labelled(Style.WARN("! "), f"{times}{shown(warning)}", inner)
    return lines


def _refusals(plan: Plan, inner: int) -> Lines:
    """The refused items, grouped by reason, with a name from each group."""
    groups: dict[str, list[Refusal]] = {}
    for refusal in plan.refused:
        groups.setdefault(refusal.reason, []).append(refusal)
    lines: Lines = []
    for reason, refused in list(groups.items())[:_MOST_REFUSALS]:
        holds = ", holds" if refused[0].row.verdict is Verdict.ALIVE else ""
        name = safe(refused[0].row.id)
        more = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
        lines += headed(Style.WARN(f"Refused {len(refused):,}: "), f"{shown(reason)}{holds}", inner)
        lines.append(plain(f"   {clip_left(name, max(4, inner - 3 - len(more)))}{more}", inner, Style.DIM))
    if len(groups) > _MOST_REFUSALS:
        lines.append(plain(f"Refused for {len(groups) - _MOST_REFUSALS} more reasons", inner))
    forceable = [refusal.row for refusal in plan.refused if refusal.forceable]
    if forceable and not plan.force:
        lines.append(fitted(inner, "   ", _how_else(forceable), Style.KEY("f"), f" takes {_from_whom(forceable)}"))
    return lines


def _how_else(rows: Sequence[Row]) -> str:
    """``Once 5200 exits, it is DEAD; `` where running processes are the only obstacle."""
    if any(row.verdict is not Verdict.ALIVE for row in rows):
        return ""
    # Of a process that is not visible here, the number may be another's by now; whose user is known was seen.
    holders = {(row.owner.host, row.owner.pid, row.owner.user) if row.owner is not None else (None, None, None) for row in rows}
    pids = [pid if user is not None else None for _, pid, user in holders]
    it = "it is" if len(rows) == 1 else "they are"
    who = f"{pids[0]}" if len(pids) == 1 and pids[0] is not None else "its holder" if len(pids) == 1 else "the holders"
    return f"Once {who} {'exits' if len(pids) == 1 else 'exit'}, {it} DEAD; "


def _from_whom(rows: Sequence[Row]) -> str:
    if all(row.box is Box.DELIVERED or row.verdict is None for row in rows):
        return f"{'it' if len(rows) == 1 else f'{len(rows):,}'} all the same"
    living = all(row.verdict is Verdict.ALIVE for row in rows)
    owner = "running owner" if living else "running or unknown owner"
    return f"it from a {owner}" if len(rows) == 1 else f"{len(rows):,} from {owner}s"


class PlanScreen(ScrollingScreen[Result | None]):
    """Opens at once and shows how far the plan is, and the first items of a large one; the plan then stays the same while the
    spool changes. Returns the result, None where it was left."""

    PINNED = True

    session: Session

    def __init__(self, session: Session, action: Action, selection: Selection, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(session)
        self.action = action
        self.selection = selection
        self.options = dict(options or {})
        self.plan: Plan | None = None
        self.force = False
        self.edit = LineEdit(limit=12, digits=True)
        self.applying = False
        self.tried = 0
        self.began = 0.0
        self.planning = ""
        self.first: Sequence[Item] = ()
        """The items that are shown before there is a plan."""
        self.rate: LineEdit | None = None
        """The rate while it is typed."""
        self.strayed_at = 0.0
        """The time (of the event clock) of the last key that has no meaning here."""
        self.asked_at = 0.0
        """The time that ``early`` is judged by: that of a key or of painting."""
        self.stop = threading.Event()

    def body(self) -> ComposeResult:
        panel = Panel(self.session.options, "panel")
        panel.readable = lambda: not self.small
        yield panel

    def on_mount(self) -> None:
        self.make()

    def make(self) -> None:
        self._ask(partial(
            self.session.control.plan, self.action, self.selection, force=self.force, options=dict(self.options),
            on_progress=now_and_then(self, self._planning),
            on_first=partial(deliver, self, self._found),
            stop=self.unwanted(),  # otherwise the next plan would wait for this one
        ))  # fmt: skip

    def _ask(self, job: Callable[[], Plan]) -> None:
        """Replaces the plan by the one that ``job`` makes; the one shown before cannot be confirmed any more."""
        self.plan, self.edit.text, self.planning, self.first = None, "", "", ()
        self.ask(self.session.worker.submit, job, partial(setattr, self, "plan"))

    def _planning(self, words: str) -> None:
        if self.plan is None:
            self.planning = words
            self.paint()

    def _found(self, items: Sequence[Item]) -> None:
        if self.plan is None:
            self.first = items
            self.paint()

    def _answered(self, take: Callable[[T], object], found: T | SpooltopError) -> None:
        self.query_one(Panel).renew()
        super()._answered(take, found)

    def on_resize(self, event: Resize) -> None:
        if self.small:  # the plan cannot be read now: a key does not count
            self.query_one(Panel).renew()

    def ignores(self, event: Key) -> bool:
        if event.key in LEAVING:
            return False
        seen_at = self.query_one(Panel).painted_at if self.plan is not None else None
        if not self.applying and (seen_at is None or event.time < seen_at):
            self.refuse_early(event)
            return self.plan is not None or not self.first or not self._moves(event)
        self.asked_at = event.time
        if self.rate is None and event.is_printable and not self._means_something(event):
            self.strayed_at = event.time
            self._settle()
        return False

    def refuse_early(self, event: Key) -> None:
        if event.key in CONFIRMING:
            self.session.state.early = event.key
            self._tell_early()

    def _tell_early(self) -> None:
        """Says that a key came too early, once somebody sees the plan that it was meant for: not the one that was applied."""
        state = self.session.state
        if state.early and not self.began and self.plan is not None and self.query_one(Panel).painted_at is not None:
            self.show_notice(early_words(state.early))
            state.early = ""

    def _moves(self, event: Key) -> bool:
        command, _ = command_for(event.key, self.context())
        return command is not None and command.group == "move"

    def _means_something(self, event: Key) -> bool:
        numbered = self.plan is not None and self.plan.confirm is Confirm.NUMBER
        return (numbered and event.character in tuple("0123456789")) or command_for(event.key, self.context())[0] is not None

    @property
    def early(self) -> bool:
        """True where it is too early to confirm: the plan was not shown long enough, or a word is being typed."""
        seen_at = self.query_one(Panel).painted_at
        return seen_at is None or self.asked_at < max(seen_at, self.strayed_at) + self.session.moment

    def on_panel_painted(self) -> None:
        self._settle()
        self._tell_early()

    def _settle(self) -> None:
        """Shows how to confirm as soon as a key would."""
        self.asked_at = Message().time
        self.paint()
        if self.early and self.session.moment and self.query_one(Panel).painted_at is not None:
            self.set_timer(self.session.moment, self._settle)

    def context(self) -> CommandContext:
        early = self.is_mounted and self.early
        return CommandContext(
            View.PLAN, snapshot=self.session.snapshot, plan=self.plan, applying=self.applying, early=early, depth=1
        )

    def typed(self, event: Key) -> bool:
        if self.rate is not None and event.key in BACKSPACES and not self.rate.text:
            return True  # a slip leaves neither the line nor, with the next key, the plan
        if super().typed(event):
            return True
        plan = self.plan
        if plan is None or self.applying or plan.confirm is not Confirm.NUMBER:
            return False
        if event.key in BACKSPACES and not self.edit.text:
            return False
        if event.key in BACKSPACES or (event.character or "") in tuple("0123456789"):
            self.edit.key(event.key, event.character)
            self.paint()
            return True
        return False

    def _set_rate(self, text: str | None) -> None:
        plan, edit, self.rate = self.plan, self.rate, None
        try:
            rate = units.parse_rate(text.strip()) if text and text.strip() else None
        except UsageError as error:
            self.rate = self.typing = edit
            self.show_notice(str(error))
            return
        if text is not None and plan is not None and plan.rate != rate:
            self.options.pop("rate", None)
            if rate is not None:
                self.options["rate"] = rate
            # In the worker thread, because the command may list a million ids.
            self._ask(partial(self.session.control.with_rate, plan, rate))
        self.paint()

    # Drawing

    def paint(self) -> None:
        if not self.ready:
            return
        if self.plan is None or self.failed:
            self.query_one(Panel).show(self._without_plan(*self.window_size))
            return
        busy = ""
        if self.applying:
            busy = "stopping…" if self.stop.is_set() else f"{self.tried:,} of {self.plan.count:,} done; Esc stops"
        rate = None if self.rate is None else self.rate.text
        lines = plan_lines(
            self.plan, self.window_size[0], self.panel_height, now=self.session.now(), typed=self.edit.text,
            scroll=self.scroll_at, busy=busy, rate=rate, early=self.early,
        )  # fmt: skip
        self.show_panel(lines)

    def _without_plan(self, width: int, height: int) -> Lines:
        if self.failed:
            lines = paragraph(shown(self.failed), width, margin=" ")
            return [(), *lines[: height - 3], (), plain(" Esc leaves; nothing was changed", width)]
        how_far = [(), plain(f" {self.planning}", width)] if self.planning else []
        if self.first:
            width = min(width, WIDEST)
            inner = inner_width(width)
            undoes, now = self.action is Action.UNDO, self.session.now()
            head = ("Nothing changes yet; Esc cancels.", f"{self.planning}; the first {len(self.first):,}:")
            table = _table(self.first, inner, max(2, height - 4), now, self.scroll_at, undoes=undoes)
            body = [*(plain(words, inner) for words in head), *table]
            return panel_frame(f"{self.action.value.capitalize()}: making the plan…", "", body, width)[:height]
        return [(), plain(f" {self.action}: making the plan… nothing changes yet; Esc cancels", width), *how_far]

    # Commands

    def do_confirm(self) -> None:
        self.apply()

    def do_confirm_number(self) -> None:
        if self.plan is None:
            return
        if self.edit.text != str(self.plan.count):
            self.show_notice(f"type the number {self.plan.count} and Enter; Esc leaves")
            return
        self.apply()

    def apply(self) -> None:
        """Applies the plan in the worker thread."""
        plan, session = self.plan, self.session
        if plan is None or self.applying:
            return
        self.applying = True
        self.began = session.control.now()
        if plan.action in FOLLOWS:
            # Before applying: a consumer may claim a message and finish it before the result is shown.
            session.snapshot_thread.follow([item.id for item in plan.items[:FOLLOWED_AT_MOST]], self.began)

        def stopped() -> bool:
            return self.stop.is_set() or session.leaving.is_set()

        def applied(result: Result | SpooltopError) -> None:
            # Kept here and not in the message: on leaving, messages are not taken any more.
            if isinstance(result, Result):
                session.state.results.append(result)
            deliver(self, self._applied, result)

        advanced = now_and_then(self, self._advanced)
        session.worker.submit(lambda: session.control.apply(plan, on_progress=advanced, stop=stopped), applied)
        self.paint()

    def _advanced(self, tried: int) -> None:
        self.tried = tried
        self.paint()

    def _applied(self, result: Result | SpooltopError) -> None:
        self.applying = False
        if isinstance(result, SpooltopError):
            self.session.snapshot_thread.follow(())
            self.failed = str(result)
            self.paint()
            return
        cursor = cursor_set(self.plan) if self.plan is not None else None
        self.open_screen(ResultScreen(self.session, result, self.began, cursor), lambda undo: self._after(result, undo))

    def _after(self, result: Result, undo: bool | None) -> None:
        self.dismiss(result)
        if undo:
            self.open_screen(PlanScreen(self.session, Action.UNDO, Selection(), {"undoes": result.operation}))

    def do_stop(self) -> None:
        self.stop.set()
        self.paint()

    def do_cancel(self) -> None:
        self.dismiss(None)

    def do_force(self) -> None:
        self.force = True
        self.make()
        self.paint()

    def do_hold_poison(self) -> None:
        self.options["hold_poison"] = True
        self.make()
        self.paint()

    def do_rate(self) -> None:
        rate = self.plan.rate if self.plan is not None else None
        self.rate = LineEdit("" if rate is None else units.rate_limit(rate).replace(",", ""), limit=12)
        self.read_line(self.rate, lambda text: self.paint(), self._set_rate)
        self.paint()

    def keys_line(self, width: int) -> Line:
        if self.rate is None:
            return super().keys_line(width)
        return footer_line([("Enter", "set it"), ("Esc", "leave it as it is")], width)

    def do_copy_command(self) -> None:
        if self.plan is not None:
            first, *more = [printable(line) for line in shell_lines(self.plan)]
            self.copy("\n".join([first, *more]), first + (f" and {len(more) - 1:,} ids below it" if more else ""))

    @property
    def texts(self) -> list[str]:
        return [escape(item.id) for item in self._items]

    @property
    def length(self) -> int:
        return len(self._items)

    @property
    def _items(self) -> Sequence[Item]:
        return self.first if self.plan is None else self.plan.items
