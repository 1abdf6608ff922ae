"""Draws the problems, worst first; where there are none, the evidence for that."""

from __future__ import annotations

from spooltop.model import units
from spooltop.model.backend import Capabilities
from spooltop.model.look.snapshot import Problem, Severity, Snapshot
from spooltop.model.vocabulary import Action, Box, Verdict

from .spans import BLANK, Line, Lines, Span, Style, crop, join, select, spread
from .text import clip, safe, shown, text_width, wrap

SIGNS = {
    Severity.CRITICAL: Style.BAD("✗"),
    Severity.WARNING: Style.WARN("!"),
    Severity.NOTE: Style.DIM("·"),
}


def problem_hint(problem: Problem, capabilities: Capabilities) -> tuple[str, str]:
    """The key for the most useful command and its label: ("r", "requeue 2"). Enter where it only opens a view, ("", "") where
    there is none."""
    box, chosen = problem.box, problem.selection
    if chosen is not None and problem.count:
        action: Action | None = None
        if problem.code == "poison":
            action = Action.HOLD
        elif problem.code in ("claims-dead", "handed-back") or (box is Box.CUR and chosen.verdict is Verdict.DEAD):
            action = Action.REQUEUE
        elif problem.code in ("tmp-abandoned", "lost"):
            action = Action.PURGE
        if action is not None and capabilities.why_not_from(action, box) is None:
            key = {Action.HOLD: "h", Action.REQUEUE: "r", Action.PURGE: "d"}[action]
            return key, f"{action.value} {'≥' if problem.at_least else ''}{problem.count:,}"
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
    top = max(0, min(chosen - height // 2, len(problems) - height))
    capabilities = snapshot.observation.capabilities
    return [
        _line(problems[i], width, capabilities, chosen=i == chosen) for i in range(top, min(len(problems), top + height))
    ]


def top_problems(snapshot: Snapshot, width: int, rows: int, *, chosen: int = 0) -> Lines:
    """The top of the Overview, with a title: always ``rows`` + 2 lines."""
    if not snapshot.problems:
        return problem_block(snapshot, width, rows + 2)
    title = (Style.TITLE(f" {problem_title(snapshot)}"),)
    return [_ends(title, problem_keys(snapshot), width), *problem_block(snapshot, width, rows + 1, chosen=chosen)]


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
    n, rows = len(problems), rows - 1
    top = max(0, min(chosen - rows + 1, n - rows))
    visible = range(top, min(n, top + rows))
    lines = [_line(problems[i], width, snapshot.observation.capabilities, chosen=i == chosen) for i in visible]
    lines += [BLANK] * (rows - len(visible))
    rest = [problem for i, problem in enumerate(problems) if i not in visible]
    lines.append(_more(rest, width))
    return lines


def _ends(left: Line, right: str, width: int) -> Line:
    """Both ends of the line where they fit, else the left one."""
    if sum(text_width(span.text) for span in left) + text_width(right) + 3 > width:
        return crop(left, width)
    return spread(left, (Style.DIM(right),), width - 1)


def _line(problem: Problem, width: int, capabilities: Capabilities, *, chosen: bool) -> Line:
    key, words = problem_hint(problem, capabilities)
    hint: Line = join(Style.KEY(key), f" {words}" if words else "")
    room = width - 5 - sum(text_width(span.text) for span in hint)
    if width < 50 and words:  # the problem is more important than its command
        hint = (Style.KEY(key),)
        room = width - 5 - text_width(key)
    text = clip(shown(problem.text), max(1, room))
    left = (Style.KEY("▌" if chosen else " "), SIGNS[problem.severity], Span(f" {text}"))
    line = crop(spread(left, hint, width - 1), width)
    if chosen:  # the sign keeps its colour under the cursor
        line = (*line[:2], *select(line[2:], width - 2))
    return line


def _brief(problem: Problem) -> str:
    words = (problem.code.replace("-", " "), safe(problem.subject or ""), f"{problem.count:,}" if problem.count > 1 else "")
    return " ".join(word for word in words if word)


def _more(rest: list[Problem], width: int) -> Line:
    if not rest:
        return BLANK
    brief = " · ".join(_brief(problem) for problem in rest)
    return crop((Span(f"   {len(rest)} more, "), Style.KEY("!"), Span(f" shows all: {brief}")), width)


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
    lines: Lines = []
    for i, part in enumerate(parts):
        start = (Span(" "), Style.GOOD("✓"), Span(" ")) if i == 0 else (Span("   "),)
        lines.append(crop((*start, Span(part)), width))
    if len(lines) > rows and rows > 0:
        lines = [*lines[: rows - 1], crop((*lines[rows - 1], Span(" …")), width)]
    return lines[:rows]
