"""Draws what stands on top: the spool, how fresh the figures are, free disk space and the user; then the problems, worst first,
and where there are none, the evidence for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from spooltop.model import Action, Box, Capabilities, Problem, Severity, Snapshot, Verdict, capacity_words, span

from ..messages import NOTHING_SEEN
from .elements import (
    BLANK,
    Line,
    Lines,
    Moment,
    Span,
    Style,
    ago,
    clip,
    clip_left,
    dim,
    first_fit,
    join,
    line_width,
    numbered,
    restyle,
    safe,
    select,
    shown,
    spread,
    text_width,
    visible,
    when,
    wrap,
)

# Says how fresh the screen is, in the words of the header.


def _with_watch(snapshot: Snapshot, moment: Moment) -> Moment:
    """Returns the moment of a screen: what is shown of a queue that does not answer is stale, too."""
    if moment.stale_for is not None or not snapshot.observation.watch.away:
        return moment
    watch = snapshot.observation.watch
    since = watch.since if watch.seen_at is None else watch.seen_at
    return moment.replace(stale_for=max(0.0, snapshot.taken_at - since), stale_why=watch.reason)


def stale_line(moment: Moment, look: str = "a look") -> Line:
    """``STALE 41s: readdir of new does not answer``."""
    why = shown(moment.stale_why) or f"{look} has not finished"
    return (Style.BAD(f"STALE {span(moment.stale_for)}"), Span(f": {why}"))


def freshness_line(snapshot: Snapshot, moment: Moment, *, short: bool = False, offset: bool = True) -> Line:
    """``live · as of 02:41:09 +0100``. FROZEN and STALE replace it, because nothing changes then. ``short``: without the words.
    """
    moment = _with_watch(snapshot, moment)
    if snapshot is NOTHING_SEEN:
        return join("looking…") if moment.stale_for is None else stale_line(moment, "the first look")
    as_of = f"{'' if short else 'as of '}{when(snapshot.observation.as_of, moment.zone, offset=offset)}"
    if moment.stale_for is not None:
        return join(stale_line(moment)[: 1 if short else 2], f" · {as_of}")
    if moment.frozen_at is not None:
        return join(Style.WARN("FROZEN"), f"{'' if short else ', Z unfreezes'} · {as_of}")
    watch = snapshot.observation.watch
    gap = " " if short else " · "
    if watch.lag is not None:
        behind = f"replica ≤{span(watch.lag)}{'' if short else ' behind'}"
        return join(Style.WARN(behind), f"{gap}{as_of}")
    if watch.mode == "live":
        besides = f", listed every {watch.period:g}s ({shown(watch.reason)})" if watch.period and not short else ""
        return join(Style.GOOD("live"), f"{besides}{gap}{as_of}")
    every = f"every {watch.period:g}s" if watch.period else watch.mode
    why = watch.reason or snapshot.observation.program
    reason = f" ({shown(why)})" if why and not short else ""
    return join(Style.WARN(every), f"{reason}{gap}{as_of}")


# Draws the notice to the user, and the commands that the palette finds.

NOTICE_LINES = 3
"""Maximum number of lines of a notice."""


def notice_lines(words: str, width: int, style: Style = Style.STRONG) -> Lines:
    """A notice in place of the keys. Longer text continues on the last line, which is cut."""
    lines = wrap(shown(words), max(1, width - 2))
    return [join(style(f" {line}")) for line in [*lines[: NOTICE_LINES - 1], " ".join(lines[NOTICE_LINES - 1 :])] if line]


_WHO = 16
"""Cells of the name of who paused the spool."""


def header(snapshot: Snapshot, width: int, target: str, moment: Moment) -> Lines:
    """The spool and how fresh the figures are; then the free space on its file system and the rights of the user."""
    second = disk_line(snapshot, width)
    moment = _with_watch(snapshot, moment)
    if second and moment.stale_for is not None:  # the part that does not answer is on the first line
        seen = f" as of {when(snapshot.observation.as_of, moment.zone, offset=True)} ·"
        second = restyle(join(seen, *disk_line(snapshot, width - text_width(seen))), Style.DIM)
    return [_first(snapshot, width, target, moment), second]


def _first(snapshot: Snapshot, width: int, target: str, moment: Moment) -> Line:
    title = Style.TITLE(" spooltop ")
    path = safe(target)
    # shown nowhere else: it has to fit
    least = most = join()
    if snapshot is not NOTHING_SEEN:
        least = join(" · ", Style.WARN("READ-ONLY")) if snapshot.observation.is_mail else least
        most = least or join(f" · watched for {span(snapshot.watched_for)}")
    room = width - text_width(title.text) - 2  # a gap, and a cell at the edge
    paused, briefly = _paused(snapshot)
    fresh = partial(freshness_line, snapshot, moment)
    freshness_lines = [
        join(paused, fresh(), most),
        join(paused, fresh(), least),
        join(paused, fresh(offset=False), least),
        join(briefly, fresh(offset=False), least),
        join(briefly, fresh(short=True, offset=False), least),
    ]
    if least and line_width(freshness_lines[-1]) > room - 8:
        freshness_lines.append(least[1:])
    if moment.stale_for is not None:
        freshness_lines = [stale_line(moment)]
    whole, cut = text_width(path), min(text_width(path), max(12, room // 5))
    # the whole path is more important than the time watched, but less than the time of the look
    pairs = [*((line, whole) for line in freshness_lines[:2]), *((line, cut) for line in freshness_lines[1:])]
    right = next((line for line, cells in pairs if line_width(line) + cells <= room), freshness_lines[-1])
    left = (title, Span(clip_left(path, max(8, room - line_width(right)))))
    return spread(left, right, width - 1)


def _paused(snapshot: Snapshot) -> tuple[Line, Line]:
    """``PAUSED by root for 2h · `` and the same in fewer words; nothing where the spool is not paused."""
    if (pause := snapshot.observation.paused) is None:
        return (), ()
    by = "" if pause.by is None else f" by {clip(safe(pause.by), _WHO)}"
    length = ago(pause.at, snapshot.taken_at)
    return join(Style.WARN(f"PAUSED{by} for {length}"), " · "), join(Style.WARN(f"PAUSED {length}"), " · ")


def disk_line(snapshot: Snapshot, width: int) -> Line:
    """``ext4 12GB free 41%, inodes free 88% · you are memex, read-write``."""
    if snapshot is NOTHING_SEEN:
        return ()
    observation = snapshot.observation
    capacities = observation.capacities
    full = any(one.free == 0 for one in capacities)
    words = [safe(one) for one in capacity_words(capacities, observation.disk)]
    brief = words[:1] if not full or capacities[0].free == 0 else words
    who = "read-only" if observation.is_mail else observation.who.words
    if not who:
        why = observation.capabilities.why_not(Action.REQUEUE)
        who = "read-write" if observation.capabilities.change else f"read-only{f': {why}' if why else ''}"
    variants = (
        join(
            " ",
            Style.BAD(", ".join(some), full),
            Style.BAD(", mounted read-only" if any(one.readonly for one in capacities) else ""),
            f"{' · ' if some else ''}you are {safe(observation.who.user)}, {shown(who)}",
        )
        for some in (words, brief)
    )
    return first_fit(width - 1, *variants)


# Draws the problems, worst first; where there are none, the evidence for that.

SIGNS = {
    Severity.CRITICAL: Style.BAD("✗"),
    Severity.WARNING: Style.WARN("!"),
    Severity.NOTE: Style.DIM("·"),
}


_REQUEUE, _PURGE = ("r", Action.REQUEUE), ("d", Action.PURGE)
_ACTIONS: Mapping[str, tuple[str, Action]] = {
    "poison": ("h", Action.HOLD), "claims-dead": _REQUEUE, "handed-back": _REQUEUE, "tmp-abandoned": _PURGE, "lost": _PURGE,
}  # fmt: skip
"""The key and the action that ends a problem with messages, by its code."""


def problem_hint(problem: Problem, capabilities: Capabilities) -> tuple[str, str]:
    """The key for the most useful command and its label: ("r", "requeue 2"). Enter where it only opens a view, ("", "") where
    there is none."""
    box, chosen = problem.box, problem.selection
    if chosen is not None and problem.count:
        key, action = _ACTIONS.get(problem.code, ("", None))
        if box is Box.CUR and chosen.verdict is Verdict.DEAD and problem.code != "poison":
            key, action = _REQUEUE
        if action is not None and capabilities.why_not_from(action, box) is None:
            return key, f"{action} {'≥' if problem.at_least else ''}{problem.count:,}"
    if problem.code in ("lock-stale", "ticket-orphan") and capabilities.why_not(Action.UNLOCK) is None:
        return "d", "remove"
    if problem.code == "paused" and capabilities.why_not(Action.RESUME) is None:
        return "P", "resume"
    return ("Enter", "") if box is not None or problem.view else ("", "")


def problem_lines(snapshot: Snapshot, width: int, height: int, *, chosen: int = 0) -> Lines:
    """All problems, as many as fit around the chosen one."""
    problems = snapshot.problems
    if not problems:
        return _nothing(snapshot, width, height)
    return _lines(snapshot, visible(len(problems), height, chosen, height // 2), width, chosen)


def top_problems(snapshot: Snapshot, width: int, rows: int, *, chosen: int = 0) -> Lines:
    """The top of the Overview, with a title: always ``rows`` + 2 lines."""
    if not snapshot.problems:
        return problem_block(snapshot, width, rows + 2)
    title, keys = join(Style.TITLE(f" {problem_title(snapshot)}")), dim(problem_keys(snapshot))
    fits = line_width(title) + line_width(keys) + 3 <= width
    head = spread(title, keys, width - 1) if fits else title
    return [head, *problem_block(snapshot, width, rows + 1, chosen=chosen)]


def problem_title(snapshot: Snapshot) -> str:
    """The title of the problems, with their number."""
    n = len(snapshot.problems)
    return f"{n} PROBLEM{'S, worst first' if n > 1 else ''}" if n else "problems"


def problem_keys(snapshot: Snapshot) -> str:
    """The keys for problems; "" where there are none."""
    return ("", "Enter shows it", "↑↓ choose · Enter shows them")[min(2, len(snapshot.problems))]


def problem_block(snapshot: Snapshot, width: int, rows: int, *, chosen: int = 0) -> Lines:
    """The problems around the chosen one and, on the last line, how many others there are: always ``rows`` lines, so that
    nothing below moves when problems appear or end."""
    problems = snapshot.problems
    if not problems:
        lines = _nothing(snapshot, width, rows)
        return lines + [BLANK] * (rows - len(lines))
    listed = visible(len(problems), rows - 1, chosen)
    lines = _lines(snapshot, listed, width, chosen)
    lines += [BLANK] * (rows - 1 - len(lines))
    rest = [_brief(problem) for i, problem in enumerate(problems) if i not in listed]
    more = join(f"   {len(rest)} more, ", Style.KEY("!"), f" shows all: {' · '.join(rest)}")
    return [*lines, more if rest else BLANK]


def _lines(snapshot: Snapshot, listed: Iterable[int], width: int, chosen: int) -> Lines:
    lines = []
    for i in listed:
        problem = snapshot.problems[i]
        key, words = problem_hint(problem, snapshot.observation.capabilities)
        hint = join(Style.KEY(key), f" {words}" if words and width >= 50 else "")  # the problem matters more than its command
        left = (Style.KEY("▌" if i == chosen else " "), SIGNS[problem.severity], Span(f" {shown(problem.text)}"))
        line = spread(left, hint, width - 1)
        if i == chosen:  # the sign keeps its colour under the cursor
            line = (*line[:2], *select(line[2:]))
        lines.append(numbered(i, line))
    return lines


def _brief(problem: Problem) -> str:
    words = (problem.code.replace("-", " "), safe(problem.subject or ""), f"{problem.count:,}" if problem.count > 1 else "")
    return " ".join(word for word in words if word)


def _nothing(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """Says since when no problem was seen, and what cannot be judged or seen; never a bare "OK"."""
    sentences = (
        f"no problems detected (watched for {span(snapshot.watched_for)}).",
        f"Not judged yet: {', '.join(snapshot.not_judged) or 'nothing'}.",
        f"Not visible: {', '.join(snapshot.not_visible) or 'nothing'}.",
    )
    room = max(1, width - 4)
    parts = [part for sentence in sentences for part in wrap(shown(sentence), room)]
    if len(parts) > rows:  # a line for each only where they fit
        parts = wrap(shown(" ".join(sentences)), room)
    head = join(" ", Style.GOOD("✓"), " ")
    lines = [join("   " if i else head, part) for i, part in enumerate(parts)]
    if len(lines) > rows and rows > 0:
        lines[rows - 1] = join(lines[rows - 1], " …")
    return lines[:rows]
