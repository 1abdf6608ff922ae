"""Draws a plan before it is confirmed."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence

from spooltop.model import units
from spooltop.model.operations.plan import Confirm, Item, Plan, Refusal, warnings_of
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.operations import effect_of, holds_poison, poison_words

from ..columns import owner_text
from ..elements.spans import (
    BLANK,
    Line,
    Span,
    Style,
    clip,
    clip_left,
    crop,
    join,
    line_width,
    merge,
    pad,
    pad_left,
    plain,
    safe,
    shown,
    wrap,
)
from ..every_screen.header import when
from ..panels.frame import WIDEST, inner_width, note_lines, panel_frame

_WHOLE = (Action.PAUSE, Action.RESUME)
"""Actions on the spool as a whole: their plans have one item."""
_MOST_REFUSALS = 4
_COMMAND_LINES = 3
_EFFECT = 22


def _noun(box: Box | None, n: int) -> str:
    word = {Box.CUR: "claim", Box.TMP: "file"}.get(box, "message") if box is not None else "message"
    return word if n == 1 else f"{word}s"


def plan_words(plan: Plan) -> str:
    """The effect of confirming: ``requeue 2``, ``delete 12 for good``."""
    if plan.action is Action.SET_CURSOR:
        return "set it"
    if plan.action is Action.UNLOCK:
        return f"remove {plan.count:,}"
    if plan.action in _WHOLE:
        return f"{plan.action.value} it"
    if plan.deletes:
        return f"delete {plan.count:,} for good"
    return poison_words(plan) if holds_poison(plan) else f"{plan.action.value} {plan.count:,}"


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
        return _undo_title(plan, asked)
    if plan.action in _WHOLE:
        return f"{plan.action.value.capitalize()} the spool"
    if plan.action is Action.UNLOCK:
        return f"Remove {plan.count:,}{of} stale {'lock' if asked == 1 else 'locks'}{by_force}"
    verb = "Delete" if plan.deletes else plan.action.value.capitalize()
    if holds_poison(plan):
        return f"{poison_words(plan).capitalize()} of {asked:,} {_noun(box, asked)}{by_force}"
    return f"{verb} {plan.count:,}{of} {_noun(box, asked)}{by_force}"


def _undo_title(plan: Plan, asked: int) -> str:
    """``Undo purge of 2 messages``, ``Undo setting cursor imessage``."""
    if plan.undone is Action.SET_CURSOR:
        rows = [item.row for item in plan.items[:1]] or [one.row for one in plan.refused[:1]]
        return f"Undo setting cursor {safe(rows[0].id)}" if rows else "Undo setting a cursor"
    if plan.undone in _WHOLE:
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
    zone: datetime.tzinfo | None = None,
    scroll: int = 0,
    busy: str = "",
    rate: str | None = None,
    early: bool = False,
) -> list[Line]:
    """A panel of at most ``height`` lines. The way to confirm is always at the bottom; the items are shortened first, shown from
    ``scroll`` on. ``typed`` is the number typed so far; ``busy`` says how far the work is, once confirmed; ``rate`` is the
    text of a rate being typed, else None. ``early``: no key confirms yet."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    head = [plain(part, inner) for part in wrap(safe(effect_of(plan)), inner)] if plan.count else []
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


def making_lines(
    action: Action, words: str, items: Sequence[Item], width: int, height: int, *, now: float, scroll: int = 0
) -> list[Line]:
    """The panel of a plan that is being made: how far it is, in ``words``, and its first items."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    head = [plain("Nothing changes yet; Esc cancels.", inner), plain(f"{words}; the first {len(items):,}:", inner)]
    table = _table(items, inner, max(2, height - 4), now, scroll, undoes=action is Action.UNDO)
    return panel_frame(f"{action.value.capitalize()}: making the plan…", "", [*head, *table], width)[:height]


def _foot(plan: Plan, inner: int, typed: str, busy: str, rate: str | None, early: bool) -> list[Line]:
    lines: list[Line] = [BLANK]
    if plan.command and plan.count:
        ids = f", with its {plan.count:,} ids" if plan.command[-1] == "-" else ""
        without = ", without force" if plan.force else ""
        parts = wrap(f"copy as command{ids}{without}: {shown(shlex.join(plan.command))}", max(8, inner - 2))
        if len(parts) > _COMMAND_LINES:
            parts = [*parts[: _COMMAND_LINES - 1], clip(f"{parts[_COMMAND_LINES - 1]} {parts[_COMMAND_LINES]}", inner - 2)]
        lines += [crop(join(Span("  " if i else "c ", Style.KEY), part), inner) for i, part in enumerate(parts)]
    if rate is not None:
        asked = join("rate limit: ", Span(f"{shown(rate)}_", Style.STRONG))
        lines.append(crop(join(asked, Span("   50, 50/s, 1000/m; empty: no limit", Style.DIM)), inner))
        return lines
    if plan.rate_text:
        lines.append(crop(join(Span("s ", Style.KEY), plan.rate_text), inner))
    if busy:
        lines.append(crop(join(Span("working: ", Style.WARN), shown(busy)), inner))
        return lines
    lines.append(crop(_confirm(plan, typed, inner, early), inner))
    return lines


def _confirm(plan: Plan, typed: str, inner: int, early: bool) -> Line:
    cancel = Span("[Esc Cancel]", Style.KEY)
    words = plan_words(plan)
    if plan.confirm is Confirm.NUMBER and not (early and not typed):
        number, so_far = Span(str(plan.count), Style.KEY), Span(f"{shown(typed)}_", Style.STRONG)
        line = join("type ", number, f" to {words}: ", so_far)
        whole = join(cancel, "   ", line)
        return whole if line_width(whole) <= inner else line  # the typed text is more important than how to leave
    if plan.confirm is Confirm.NOTHING or not plan.count:
        return join(Span("[Esc Close]", Style.KEY), "   nothing to do")
    if early:
        return join(cancel, "   …")
    offered = plan.poison and not holds_poison(plan)
    hold = join("   ", Span("h", Style.KEY), f" {poison_words(plan)}") if offered else BLANK
    return join(cancel, "   ", Span(plan.confirm.value, Style.KEY), f" {words}", hold)


def _table(items: Sequence[Item], inner: int, rows: int, now: float, scroll: int, *, undoes: bool) -> list[Line]:
    """A title and as many items as fit, from ``scroll`` on; the others are counted. Items that are not messages show their
    description. ``undoes``: with the box that each item moves back to."""
    if items[0].words:
        return [plain(part, inner, Style.STRONG) for item in items for part in wrap(shown(item.words), inner)][:rows]
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
    sign = Span("! " if item.warning else "  ", Style.WARN)
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
    return crop(merge(parts), inner)


def _verdict(row: Row) -> Span:
    word = row.verdict.value if row.verdict is not None else "—"
    dead = row.verdict is Verdict.DEAD
    return Span(pad(word.upper() if dead else word, 11), Style.BAD if dead else Style.NORMAL)


def _warnings(plan: Plan, inner: int) -> list[Line]:
    counted = warnings_of(plan.items)
    lines: list[Line] = []
    for warning, n in list(counted.items())[:_MOST_REFUSALS]:
        times = f"{n:,}: " if n > 1 else ""
        parts = wrap(f"{times}{shown(warning)}", max(1, inner - 2))
        lines.append(crop(join(Span("! ", Style.WARN), parts[0]), inner))
        lines += [plain(f"  {part}", inner) for part in parts[1:]]
    return lines


def _refusals(plan: Plan, inner: int) -> list[Line]:
    """The refused items, grouped by reason, with a name from each group."""
    groups: dict[str, list[Refusal]] = {}
    for refusal in plan.refused:
        groups.setdefault(refusal.reason, []).append(refusal)
    lines: list[Line] = []
    for reason, refused in list(groups.items())[:_MOST_REFUSALS]:
        holds = ", holds" if refused[0].row.verdict is Verdict.ALIVE else ""
        name = safe(refused[0].row.id)
        more = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
        start = f"Refused {len(refused):,}: "
        parts = wrap(f"{start}{shown(reason)}{holds}", inner, indent=3)
        lines.append(crop(join(Span(start, Style.WARN), parts[0].removeprefix(start)), inner))
        lines += [plain(part, inner) for part in parts[1:]]
        lines.append(plain(f"   {clip_left(name, max(4, inner - 3 - len(more)))}{more}", inner, Style.DIM))
    if len(groups) > _MOST_REFUSALS:
        lines.append(plain(f"Refused for {len(groups) - _MOST_REFUSALS} more reasons", inner))
    forceable = [refusal.row for refusal in plan.refused if refusal.forceable]
    if forceable and not plan.force:
        lines.append(crop(join("   ", _how_else(forceable), Span("f", Style.KEY), f" takes {_from_whom(forceable)}"), inner))
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
