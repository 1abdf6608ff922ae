"""``layouts`` lists the layouts of other programs' queues; ``layouts try`` shows what one makes of a directory. ``layouts form``
and ``layouts show`` print what a layout of one's own can begin with."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from spooltop.layouts import SortedFile, form_text, known_layouts, layout_text, layout_warnings, try_layout
from spooltop.model import Row, UsageError, escape
from spooltop.model import vocabulary as units

from ..context import NOTHING_MATCHED, Arguments
from ..render import as_json, as_text

_NEEDS = {"form": ("nothing more", ""), "show": ("a layout", "NAME"), "try": ("a layout and a directory", "FILE PATH")}
"""Needs of each word, in English and as they are written."""
_TIMES = ("enqueued_at", "since", "not_before", "expires")


def layouts(args: Arguments) -> int:
    """Runs ``layouts`` and its words ``form``, ``show NAME`` and ``try FILE PATH``. Returns 1 where a layout file is not valid, 4
    where no file lies in a box."""
    if not args.words:
        return _list(args)
    word, *rest = args.words
    if word not in _NEEDS:
        raise UsageError(f"layouts: unknown word {word!r}", "spooltop layouts, or with one of form, show NAME, try FILE PATH")
    needs, form = _NEEDS[word]
    if len(rest) != len(form.split()):
        raise UsageError(f"layouts {word} needs {needs}", f"spooltop layouts {word} {form}".rstrip())
    if word == "try":
        return _try(args, *rest)
    text = form_text() if word == "form" else layout_text(rest[0], args.terminal.environ)
    for line in text.splitlines():
        args.terminal.out(escape(line))
    return 0


def _list(args: Arguments) -> int:
    terminal = args.terminal
    known = known_layouts(terminal.environ)
    widest = max((len(" ".join(one["boxes"])) for one in known), default=0)
    for one in known:
        if terminal.json:
            terminal.out_json(one)
        elif one["error"]:
            terminal.error(one["error"])
        else:
            where = "comes with spooltop" if one["ships"] else one["file"]
            where += ", not used: another layout of this name comes first" if one["shadowed"] else ""
            terminal.out(f"{escape(one['name']):<22} {' '.join(one['boxes']):<{widest}} {where}")
            _warn(one["warnings"], args)
    return 1 if any(one["error"] for one in known) else 0


def _try(args: Arguments, file: str, path: str) -> int:
    terminal = args.terminal
    now = time.time()
    counts: Counter[str] = Counter()
    warnings = args.reach(file, lambda: list(layout_warnings(file, terminal.environ)))
    if not terminal.json:
        _warn(warnings, args)
    for found in args.reach(path, lambda: list(try_layout(file, path, terminal.environ))):
        counts[found.box] += 1
        terminal.show([_json(found, now)], [_text(found, now)])
    if not terminal.json:
        boxes = " · ".join(f"{box} {count:,}" for box, count in counts.items() if box) or "no file lies in a box"
        terminal.out(f"{boxes} · in no box {counts['']:,}")
    return 0 if counts.total() > counts[""] else NOTHING_MATCHED


def _text(found: SortedFile, now: float) -> str:
    facts = " ".join((*_judged(found.row, now), *_facts(found.facts, now)))
    return f"{found.box or '—':<9} {escape(found.path)}  [{escape(found.rule)}]{'  ' if facts else ''}{facts}"


def _judged(row: Row | None, now: float) -> Iterator[str]:
    """Age in its box, holder and verdict, as the lists show them."""
    if row is None:
        return
    yield f"age={row.held(now)}"
    if row.owner is not None:
        named = (escape(row.owner.command or ""), "" if row.owner.pid is None else f"pid {row.owner.pid}")
        yield f"holder={' '.join(filter(None, named))}"
    if row.verdict is not None:
        yield f"{as_text.verdict(row)} ({escape(row.evidence)})"


def _warn(warnings: Iterable[str], args: Arguments) -> None:
    for warning in warnings:
        args.terminal.err(f"spooltop: warning: {warning}")


def _facts(facts: Mapping[str, float | int | str], now: float) -> Iterator[str]:
    for name, value in facts.items():
        if name in _TIMES and isinstance(value, (int, float)):
            ago = now - value
            yield f"{name}={'in ' if ago < 0 else ''}{units.age(abs(ago))}{'' if ago < 0 else ' ago'}"
        else:
            yield f"{name}={escape(str(value))[:60]}"


def _json(found: SortedFile, now: float) -> dict[str, object]:
    row = found.row
    line: dict[str, object] = {
        "path": escape(found.path), "box": found.box or None, "id": (row and escape(row.id)) or None, "rule": found.rule,
        **found.facts,
    }  # fmt: skip
    if row is not None:
        owner = row.owner and {"pid": row.owner.pid, "command": escape(row.owner.command or "") or None}
        line |= {
            "in_box_age": row.in_box_age(now), "in_box_is_bound": row.since_is_bound,
            **as_json.members(row, "verdict", "evidence"), "owner": owner,
        }  # fmt: skip
    return line
