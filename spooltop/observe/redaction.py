"""Hides redacted values in an observation, before any history, verdict or text is derived from them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from spooltop.model.cursors import CursorSource, CursorVersion, CursorWrite
from spooltop.model.look.observation import Observation
from spooltop.model.redact import Redactor
from spooltop.model.vocabulary import Json


def redacted(observation: Observation, redactor: Redactor) -> Observation:
    """Returns the observation with the values of cursors and the lines of poll logs hidden as ``redactor`` says."""
    cursors = tuple(_redacted(one, redactor) for one in observation.cursors)
    polls = tuple(replace(poll, line=redactor.text(poll.line)) for poll in observation.polls)
    return replace(observation, cursors=cursors, polls=polls)


def _redacted(cursor: CursorSource, redactor: Redactor) -> CursorSource:
    def sections(shown: Mapping[str, Json]) -> dict[str, Json]:
        return {name: redactor.section(name, value, marked=True) for name, value in shown.items()}

    def write(one: CursorWrite) -> CursorWrite:
        old, new = (redactor.section(one.source, value, marked=True) for value in (one.old, one.new))
        return replace(one, old=old, new=new)

    def version(one: CursorVersion) -> CursorVersion:
        return replace(one, sections=sections(one.sections))

    shown = None if cursor.sections is None else sections(cursor.sections)
    return replace(
        cursor, sections=shown, journal=tuple(map(write, cursor.journal)), earlier=tuple(map(version, cursor.earlier))
    )
