"""Patterns that are compiled when they are first used do what compiled ones do."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from typing import Any

import pytest

import spooltop.patterns
from spooltop.patterns import pattern

USES: dict[str, Callable[[Any], object]] = {
    "match": lambda found: found.match("a17b4")[1],
    "match from a place": lambda found: found.match("xxa17", 2).span(),
    "no match": lambda found: found.match("17"),
    "fullmatch": lambda found: found.fullmatch("a17")[0],
    "search": lambda found: found.search("..B4", 1).start(),
    "findall": lambda found: found.findall("a17b4"),
    "finditer": lambda found: [one[0] for one in found.finditer("a17b4")],
    "sub": lambda found: found.sub(r"<\1>", "a17b4"),
    "pattern": lambda found: found.pattern,
    "groups": lambda found: found.groups,
    "flags": lambda found: found.flags,
}


@pytest.mark.parametrize("use", USES)
def test_it_does_what_a_compiled_one_does(use: str) -> None:
    found = pattern("[a-z]([0-9]+)", re.IGNORECASE)
    twice = USES[use](found), USES[use](found)
    expected = USES[use](re.compile("[a-z]([0-9]+)", re.IGNORECASE))
    assert twice == (expected, expected)


def test_nothing_is_compiled_before_it_is_used() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("")


def test_the_example_runs() -> None:
    outcome = doctest.testmod(spooltop.patterns)
    assert outcome.attempted > 0 and outcome.failed == 0
