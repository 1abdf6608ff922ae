"""Conditions of a selection on messages: on their names, and on what their files and holders tell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

from spooltop.engine import names as grammar
from spooltop.model.filters import query
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.chunked import expand
from spooltop.model.vocabulary import Box

from ...storage.name_forms import named_like
from .chunks import Listed, Selected
from .packed_items import ids_of, is_claimed

__all__ = ["SelectionConditions"]


class SelectionConditions:
    """The conditions of a selection, and which of its names were found."""

    def __init__(self, selection: Selection, now: float) -> None:
        self._selection = selection
        self._now = now
        self._ids = None if selection.ids is None else frozenset(selection.ids)
        self._keys = None if selection.keys is None else frozenset(selection.keys)
        self._filter = query.parse(selection.filter) if selection.filter else None
        self._met: set[object] = set()
        self.without_age = 0

    def may_be_in(self, box: Box) -> bool:
        if self._selection.box not in (None, box):
            return False
        return self._keys is None or any(isinstance(key, tuple) and key and key[0] == box for key in self._keys)

    def of_names(self, listed: Listed) -> list[bool] | None:
        """The conditions that need no file, for each name; None where all names are selected."""
        selection, names = self._selection, listed.names
        masks: list[list[bool]] = []
        if selection.named:
            masks.append(self._are_named(listed))
        if selection.source is not None:
            masks.append([source == selection.source for source in _sources(listed)])
        if selection.verdict is not None:
            words = expand(listed.judged.verdict, len(names))
            masks.append([word == selection.verdict for word in words])
        if all(map(all, masks)):
            return None
        return [all(row) for row in zip(*masks, strict=True)]

    def _are_named(self, listed: Listed) -> list[bool]:
        names, front = listed.names, f"{listed.folder}/" if listed.folder else ""
        ids = ids_of(listed.box, names, listed.forms.id_ends)
        keys = [(listed.box.value, front + name) for name in names]
        mask = [
            (self._keys is None or key in self._keys) and (self._ids is None or id in self._ids or name in self._ids)
            for id, name, key in zip(ids, names, keys, strict=True)
        ]
        for column in (ids, names, keys):
            self._met.update(compress(column, mask))
        return mask

    def of_messages(self, found: Selected) -> Selected | None:
        """The messages that meet the conditions on what their files and holders tell; None where no message does."""
        if self._filter is not None:
            messages = found.messages
            rows = (messages.message(place).row for place in range(messages.length))
            found = found.only([self._filter.match(row, self._now) for row in rows])
        if self._selection.older_than is not None and found.messages.name:
            ages = [None if since is None else max(0.0, self._now - since) for since in found.since]
            self.without_age += ages.count(None)
            found = found.only([self._selection.old_enough(age) for age in ages])
        return found if found.messages.name else None

    def missing(self) -> tuple[str, ...]:
        lost = [name for name in self._selection.ids or () if name not in self._met]
        unmet = (key for key in self._selection.keys or () if key not in self._met)
        lost += [str(key[-1]) if isinstance(key, tuple) and key else str(key) for key in unmet]
        return tuple(lost)


def _sources(listed: Listed) -> Iterator[str | None]:
    for name, end, attributes in zip(listed.names, listed.forms.id_ends, listed.forms.attributes, strict=True):
        like = named_like(attributes) if end else None
        yield (like or grammar.parse(name, claimed=is_claimed(listed.box))).source
