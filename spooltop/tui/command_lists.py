"""The lists that are made of the table of commands: the footer, the tabs, the help and the palette."""

from __future__ import annotations

from collections.abc import Container

from spooltop.operate.operations import poison_words

from .commands import COMMANDS, COUNTED, GROUPS, TABS, KeyCommand, by_id, commands_in, only_in
from .context import CommandContext, View
from .draw.operating.plan import plan_words


def footer(context: CommandContext) -> list[tuple[str, str]]:
    """(key, label) of the commands that are available now, the most important first."""
    wanted = sorted((c for c in commands_in(context.view) if c.rank and c.why_not(context) is None), key=lambda c: c.rank)
    return [(command.key, label(command, context)) for command in wanted]


def label(command: KeyCommand, context: CommandContext) -> str:
    """The label of a command, with the number of items that it acts on."""
    count = context.target_count
    if command.id in COUNTED:
        if count == 1 and not context.marked:
            return f"{command.label} this 1" if command.rank == 1 else command.label
        return f"{command.label} {count:,}"
    if command.id == "empty-expired" and (expired := context.expired):
        return f"delete {expired:,} expired"
    if command.id == "mute" and context.muted:
        return "unmute"
    if command.id == "hold-poison" and context.plan is not None:
        return poison_words(context.plan)
    if command.id == "mark-all":
        return f"mark all {context.rows:,}"
    if command.id == "open" and context.view is View.LOCKS:
        return by_id("who").label
    if command.id == "open" and context.view is View.CONSUMERS:
        return "its claims"
    if command.id.startswith("confirm-") and context.plan is not None:
        return plan_words(context.plan)
    return command.label


def tabs(absent: Container[str] = ()) -> list[tuple[str, str, str]]:
    """(view, key, label) of the views that this kind of queue has, in their order."""
    return [(id, by_id(id).key, by_id(id).label) for id in TABS if id not in absent]


def help_lines(context: CommandContext) -> list[tuple[str, str, str]]:
    """(keys, help, why not) of this view by groups; a line with no keys is the title of a group."""
    out: list[tuple[str, str, str]] = []
    for group, title in GROUPS.items():
        lines = [
            (command.shown_keys, command.help, command.why_not(context) or "")
            for command in commands_in(context.view)
            if command.group == group
        ]
        if lines:
            out += [("", title, ""), *lines]
    return out


def palette(context: CommandContext, text: str) -> list[tuple[KeyCommand, str]]:
    """The commands of this view whose name or help contains all words of ``text``, each with the reason why it is not available
    (or ""). Commands of other views follow, which say where they are, if ``text`` names them."""
    words = text.lower().split()
    here = [
        (command, command.why_not(context) or "")
        for command in commands_in(context.view)
        if command.group != "move" and command.id != "palette"
        if all(word in f"{command.id} {command.label} {command.help} {command.also}".lower() for word in words)
    ]
    labels = {command.label for command in commands_in(context.view)}
    there = [
        (command, reason)
        for command in COMMANDS
        if words and context.view not in command.views and command.group != "move" and command.label not in labels
        if all(word in f"{command.id} {command.label} {command.also}".lower() for word in words)
        if (reason := only_in(command, context))
    ]
    return here + there
