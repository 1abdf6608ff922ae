"""``doctor``: each check of the place on a line, with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spooltop.model import UsageError, parse_age, printable
from spooltop.monitor.doctor import Diagnosis, diagnose, examined, exit_code

from ..context import Arguments, Terminal, interrupted_by_signals, while_waiting

_LONGEST = 86400.0
_MARKS = {"problem": ("✗", 31), "warning": ("!", 33), "ok": ("✓", 32)}
"""Sign and colour of each word, the worst first."""
_WORD, _CHECK = 7, 18
_REMEDY = "    "


def doctor(args: Arguments) -> int:
    """Prints the result of each check; the exit code is that of the worst."""
    from ..demo.scenario import left_behind

    terminal = args.terminal
    watch = 0.0 if args.watch is None else parse_age(args.watch)
    if args.watch is not None and not 0 < watch <= _LONGEST:
        raise UsageError(f"--watch {args.watch!r} is not between 1s and 1d", "as in --watch 10s")
    with args.control(watch=bool(watch), owners=False) as control, interrupted_by_signals():
        with while_waiting(terminal, "doctor", control.current_step):
            found = diagnose(examined(control, write=args.write, watch=watch, demos=left_behind()))
    terminal.show(map(_json, found), _drawn(found, terminal) if terminal.out_is_terminal else map(_plain, found))
    return exit_code(found)


def _json(one: Diagnosis) -> dict[str, str | None]:
    return {"check": one.check, "status": one.health, "text": one.text, "remedy": one.remedy or None}


def _plain(one: Diagnosis) -> str:
    remedy = f"; remedy: {one.remedy}" if one.remedy else ""
    return f"{one.health} {one.check}: {printable(one.text + remedy)}"


def _drawn(found: Sequence[Diagnosis], terminal: Terminal) -> Iterator[str]:
    """Lines for a terminal: a sign, the word, the check, and its text, wrapped beside them. The last line counts."""
    import textwrap  # only for a terminal

    margin = " " * (2 + _WORD + 2 + _CHECK + 1)
    width = max(terminal.width(terminal.stdout), len(margin) + 20)
    for one in found:
        word = str(one.health)
        sign, colour = _MARKS[word]
        head = f"{sign} {word:<{_WORD}}  {one.check:<{_CHECK}} "
        text = textwrap.wrap(printable(one.text), width - len(margin), break_long_words=False, break_on_hyphens=False)
        yield (f"\x1b[{colour}m{head}\x1b[39m" if terminal.coloured else head) + text[0]
        yield from (margin + line for line in text[1:])
        if one.remedy:
            # A command is not wrapped: the terminal does that, and whoever copies it gets one line.
            yield f"{_REMEDY}→ {printable(one.remedy)}"
    counts = {word: sum(one.health == word for one in found) for word in _MARKS}
    yield ""
    yield ", ".join(f"{n} {word}{'s' if n != 1 and word != 'ok' else ''}" for word, n in counts.items() if n)
