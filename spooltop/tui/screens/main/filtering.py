"""Filters the list while the filter is typed."""

from __future__ import annotations

from textual.events import Key

from ..base import LineEdit
from .state import FilterInput
from .updates import set_filter
from .view import MainView


def open_filter(view: MainView) -> None:
    """Opens the filter of the view in front for typing."""
    view.state.filter_input = FilterInput(LineEdit(view.state.filter))
    view.paint()


def type_filter(view: MainView, event: Key) -> bool:
    """Handles every key but those that leave the dashboard or move in the list; False where no filter is being typed. As in less
    and vi, Enter keeps the filter and Esc clears it; Backspace in an empty filter leaves it, too."""
    state, typing = view.state, view.state.filter_input
    if typing is None or event.key in ("ctrl+c", "f10", "ctrl+z", "up", "down", "pageup", "pagedown", "f1"):
        return False
    if event.key == "escape":
        state.filter_input = None
        set_filter(view, "")
    elif event.key == "enter" or (event.key in ("backspace", "ctrl+h") and not typing.edit.text):
        state.filter_input = None
        if typing.error:
            view.show_notice(f"not filtered by all of it: {typing.error}")
        view.paint()
    elif typing.edit.key(event.key, event.character):
        apply_filter(view)
    return True


def apply_filter(view: MainView) -> None:
    """Filters by the part of the text that can be parsed; the error names the rest. ``n`` uses this filter, even after Esc
    cleared it."""
    state, typing = view.state, view.state.filter_input
    if typing is None:
        return
    found = state.parse(typing.edit.text)
    typing.error = found.hint
    if state.list_state is not None:
        state.last_filter = str(found) or state.last_filter
    set_filter(view, str(found))
