"""Draws the problems, worst first; where there are none, the evidence for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spooltop.model import vocabulary as units
from spooltop.model.backend import Capabilities
from spooltop.model.snapshot import Problem, Severity, Snapshot
from spooltop.model.vocabulary import Action, Box, Verdict

from .elements import BLANK, Lines, Span, Style, dim, join, line_width, numbered, safe, select, shown, spread, visible, wrap

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
        f"no problems detected (watched for {units.span(snapshot.watched_for)}).",
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
