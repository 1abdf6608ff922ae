"""A row with another verdict is otherwise the same row."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict


def test_another_verdict_leaves_all_else_as_it_is() -> None:
    values: dict[str, Any] = {field.name: f"any {field.name}" for field in fields(Row)}
    row = Row(**{**values, "box": Box.CUR})
    verdict, evidence, owner = Verdict.DEAD, "exited", Owner(pid=7)
    assert row.judged(verdict, evidence, owner) == replace(row, verdict=verdict, evidence=evidence, owner=owner)
