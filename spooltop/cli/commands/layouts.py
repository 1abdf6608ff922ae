"""``layouts`` lists the layouts of other programs' queues; ``layouts try`` shows what one makes of a directory."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping

from spooltop.errors import UsageError
from spooltop.layouts import SortedFile, known_layouts, try_layout
from spooltop.model import units
from spooltop.model.text import escape

from ..context import Context
from ..render import snapshot_json as render_json

__all__ = ["layouts"]

NOTHING_MATCHED = 4
_TIMES = ("enqueued_at", "since", "not_before", "expires")


def layouts(args: argparse.Namespace, context: Context) -> int:
    """Runs ``layouts`` and ``layouts try FILE PATH``. Returns 1 where a layout file is not valid, 4 where no file lies in a
    box."""
    if not args.words:
        return _list(args.json, context)
    if args.words[0] != "try":
        raise UsageError(f"layouts: unknown word {args.words[0]!r}", advice="spooltop layouts, or spooltop layouts try FILE PATH")
    if len(args.words) != 3:
        raise UsageError("layouts try needs a layout and a directory", advice="spooltop layouts try FILE PATH")
    return _try(args.words[1], args.words[2], args.json, context)


def _list(as_json: bool, context: Context) -> int:
    known = known_layouts(context.terminal.environ)
    out = context.terminal.out
    for one in known:
        if as_json:
            line = {
                "schema": render_json.SCHEMA, "name": one.name or None, "file": escape(one.path), "ships": one.ships,
                "shadowed": one.shadowed, "boxes": list(one.boxes), "error": one.error or None,
            }  # fmt: skip
            out(render_json.dumps(line))
        elif one.error:
            context.terminal.error(one.error)
        else:
            where = "comes with spooltop" if one.ships else escape(one.path)
            where += ", not used: another layout of this name comes first" if one.shadowed else ""
            out(f"{escape(one.name):<22} {' '.join(one.boxes):<22} {where}")
    return 1 if any(one.error for one in known) else 0


def _try(file: str, path: str, as_json: bool, context: Context) -> int:
    now = time.time()
    counts: Counter[str] = Counter()
    for found in try_layout(file, path, context.terminal.environ):
        counts[found.box] += 1
        context.terminal.out(_json(found) if as_json else _text(found, now))
    if not as_json:
        boxes = " · ".join(f"{box} {count:,}" for box, count in counts.items() if box) or "no file lies in a box"
        context.terminal.out(f"{boxes} · in no box {counts['']:,}")
    return 0 if counts.total() > counts[""] else NOTHING_MATCHED


def _text(found: SortedFile, now: float) -> str:
    box = found.box or "—"
    facts = " ".join(_facts(found.facts, now))
    return f"{box:<9} {escape(found.path)}  [{escape(found.rule)}]{'  ' if facts else ''}{facts}"


def _facts(facts: Mapping[str, float | int | str], now: float) -> list[str]:
    words = []
    for name, value in facts.items():
        if name in _TIMES and isinstance(value, (int, float)):
            ago = now - value
            words.append(f"{name}={'in ' if ago < 0 else ''}{units.age(abs(ago))}{'' if ago < 0 else ' ago'}")
        else:
            words.append(f"{name}={escape(str(value))[:60]}")
    return words


def _json(found: SortedFile) -> str:
    line = {
        "schema": render_json.SCHEMA, "path": escape(found.path), "box": found.box or None, "id": escape(found.id) or None,
        "rule": found.rule, **found.facts,
    }  # fmt: skip
    return render_json.dumps(line)
