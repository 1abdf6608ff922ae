"""Confirmation required for a plan: the greater the danger, the more a person has to type."""

from __future__ import annotations

from spooltop.model.operations.plan import Confirm

LARGE_FROM = 10
NUMBER_FROM = 100


def confirm_for(count: int, *, uncertain: bool) -> Confirm:
    """Returns the confirmation required for ``count`` items. ``uncertain``: at least one item belongs to a holder or writer that
    is not known to be gone.

    >>> confirm_for(9, uncertain=False), confirm_for(10, uncertain=False), confirm_for(1, uncertain=True)
    (<Confirm.SMALL: 'y'>, <Confirm.LARGE: 'Y'>, <Confirm.NUMBER: 'number'>)
    """
    if count <= 0:
        return Confirm.NOTHING
    if uncertain or count >= NUMBER_FROM:
        return Confirm.NUMBER
    return Confirm.LARGE if count >= LARGE_FROM else Confirm.SMALL


def accepts(confirm: Confirm, count: int, typed: str) -> bool:
    """True if ``typed`` is the confirmation of ``count`` items that ``confirm`` requires: ``y`` (``Y`` also works), ``Y``, or the
    number."""
    typed = typed.strip()
    match confirm:
        case Confirm.SMALL:
            return typed in ("y", "Y")
        case Confirm.LARGE:
            return typed == "Y"
        case Confirm.NUMBER:
            return typed == str(count)
        case Confirm.NOTHING:
            return False


def confirm_words(confirm: Confirm, count: int) -> str:
    """Returns the words for what is to be typed."""
    return {Confirm.LARGE: "Shift-Y", Confirm.NUMBER: f"the number {count}"}.get(confirm, "y")
