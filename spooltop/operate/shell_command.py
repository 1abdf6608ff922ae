"""Shell command of a plan: the same action, to be copied, kept, or run in another directory."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Item, Plan, boxes_of, item_columns
from spooltop.model.target import has_scheme
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Json

MOST_IDS = 200
"""Maximum number of ids on the command line, whose length is limited; more ids are read from stdin (``-``)."""

MOST_LINES = 1_000
"""Maximum number of ids in a here-document: terminals truncate longer clipboards."""
_END = "END OF IDS"
"""Delimiter of a here-document."""
_INJECT_FLAGS = ("count", "size", "text", "file", "source", "rate")


def id_word(name: str) -> str:
    r"""Writes an id as a word that every command reads back, never mistaken for a flag, for ``-`` or for ``ALL``.

    >>> id_word("--force"), id_word("ALL"), id_word("a b")
    ('\\x2d-force', '\\x41LL', 'a b')
    """
    shown = escape(name)
    return f"\\x{ord(shown[0]):02x}{shown[1:]}" if shown.startswith("-") or shown == "ALL" else shown


def undo_words(target: str, operation: str, flags: Sequence[str] = ()) -> tuple[str, ...]:
    return ("spooltop", "undo", target, *flags, operation)


def shell_lines(plan: Plan) -> list[str]:
    """Lines of the command of ``plan`` for pasting into a shell, not escaped for a screen. Ids for stdin follow in a
    here-document; if there are too many for a clipboard, the command repeats the selection instead."""
    text = shlex.join(plan.command)
    if plan.command[-1:] != ("-",):
        return [text]
    if plan.count > MOST_LINES and not plan.selection.named:
        return [f"{shlex.join(_ls_words(plan))} | {text}"]
    ids, names, _, _ = item_columns(plan.items)
    seen = Counter(ids)
    lines = [id_word(id if seen[id] == 1 else name) for id, name in zip(ids, names, strict=True)]
    return [f"{text} <<'{_END}'", *(f"\\x{ord(_END[0]):02x}{_END[1:]}" if line == _END else line for line in lines), _END]


def _ls_words(plan: Plan) -> list[str]:
    """Words of the command that lists the messages of the plan's selection."""
    return ["spooltop", "ls", plan.command[2], *replace(plan.selection, everything=False).words(), "--json"]


def command_words(
    action: Action,
    target: str,
    selection: Selection,
    items: Sequence[Item],
    *,
    options: Mapping[str, Json],
    flags: Sequence[str] = (),
) -> tuple[str, ...]:
    """Words of the command: ``target`` as it was given, the ``flags`` that open it, and the ids of ``items``; an id that occurs
    twice is replaced by the name. A text to inject that is not printable is escaped, as it is on the screen. What is pasted asks
    first: there is neither ``--yes`` nor ``--force`` in it."""
    rate = options.get("rate")
    slowly = ["--rate", f"{rate:.12g}"] if isinstance(rate, (int, float)) else []
    if action is Action.UNDO:
        return (*undo_words(target, str(options.get("undoes", "")), flags), *slowly)
    if action is Action.SET_CURSOR:
        return _set_words(target, items, options=options, flags=flags)
    if action is Action.UNLOCK:
        names = dict.fromkeys(str(item.row.key) for item in items)
        return ("spooltop", "unlock", target, *flags, *map(id_word, names))
    if action in (Action.PAUSE, Action.RESUME):
        text = str(options.get("reason") or "")
        reason = text if text.isprintable() else escape(text)
        why = [f"--reason={reason}"] if reason.startswith("-") else ["--reason", reason] if reason else []
        return ("spooltop", str(action), target, *flags, *why)
    words = ["spooltop", "purge" if action is Action.EMPTY else str(action), target, *flags]
    if action is Action.INJECT:
        for flag in _INJECT_FLAGS:
            value = options.get(flag)
            if flag == "rate":
                words += slowly
            elif value is not None and not (flag == "text" and options.get("file") is not None):
                word = str(value)
                words += [f"--{flag}", word if word.isprintable() else escape(word)]
        if options.get("canary"):
            words.append("--canary")
        return tuple(words)
    boxes = set(boxes_of(items)) or ({selection.box} if selection.box else set())
    box = boxes.pop() if len(boxes) == 1 else None
    if box is not None and not (action is Action.REQUEUE and box is Box.CUR):
        words += ["--box", str(box)]
    if action is Action.REQUEUE and box is Box.NEW:
        options = {**options, "copy": True}  # a message that waits can only be put again
    words += [f"--{option.replace('_', '-')}" for option in ("now", "hold_poison", "copy") if options.get(option)]
    words += slowly
    if len(items) > MOST_IDS:
        return (*words, "-")
    seen = Counter(item.id for item in items)
    return (*words, *(id_word(item.id if seen[item.id] == 1 else item.name) for item in items))


def _set_words(
    target: str, items: Sequence[Item], *, options: Mapping[str, Json], flags: Sequence[str]
) -> tuple[str, ...]:
    """Words of the command that sets a cursor. The value is written as JSON, independent of the later content of the section, so
    that the copied command means the same whenever it is pasted."""
    source = escape(str(options.get("source", ""))).replace("=", "\\x3d")
    value = json.dumps(options.get("value"), ensure_ascii=True)
    words = ["spooltop", "cursors", target, *flags, "--set", f"{source}={value}", "--type", "json"]
    file = options.get("file") if not items or has_scheme(items[0].name) else items[0].name  # a server has no files
    return (*words, *(["--file", escape(str(file))] if file is not None else []))
