"""Parsing of typed cursor values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.model.cursors.input import parse_value
from spooltop.model.vocabulary import Json


@pytest.mark.parametrize(
    ("text", "present", "kind", "value", "words"),
    [
        ("89640", 89632, "", 89640, "a number"),
        ("89640", "89632", "", "89640", "a text, as it is now"),
        ("89640", "tok", "", "89640", "a text, as it is now"),
        ("007", 5, "", "007", "a text"),
        ('"89640"', 89632, "", "89640", "a text"),
        ('"x"', "tok", "", "x", "a text"),
        ("tok en", 5, "", "tok en", "a text"),
        ("NaN", 5, "", "NaN", "a text"),
        ("null", 5, "", None, "null"),
        ("2026-11-21T02:41:09Z", "2026-11-20T00:00:00Z", "", "2026-11-21T02:41:09Z", "a text"),
        ("8", {"last_rowid": 7, "last_run": 9.5}, "", {"last_rowid": 8, "last_run": 9.5}, "a number, in its field last_rowid"),
        ("8", {"cursor": "7"}, "", {"cursor": "8"}, "a text, as it is now, in its field cursor"),
        ('{"cursor": 9}', {"cursor": 7, "x": 1}, "", {"cursor": 9}, "an object"),
        ("8", {"a": 1, "b": 2}, "", 8, "a number"),
        ("8", {"cursor": 7}, "json", 8, "JSON, as asked"),
        ("8", "7", "json", 8, "JSON, as asked"),
        ("8", 7, "text", "8", "a text, as asked"),
        ("[1]", 7, "", [1], "a list"),
        ("8", None, "", 8, "a number"),
        ("1e999", 5, "", "1e999", "a text"),
        ("[-1e999]", 5, "", "[-1e999]", "a text"),
        ("1e999", {"cursor": 7, "x": 1}, "", {"cursor": "1e999", "x": 1}, "a text, in its field cursor"),
    ],
)  # fmt: skip
def test_what_is_meant(text: str, present: Json, kind: str, value: Json, words: str) -> None:
    found = parse_value(text, present, kind)
    assert (found.value, type(found.value), found.words) == (value, type(value), words)


@pytest.mark.parametrize(
    ("text", "why"), [("tok", "Expecting value"), ("NaN", "is not JSON"), ("", "Expecting"), ("1e999", "too large"),
    ("[" * 20_000, "nested too deep")]
)
def test_json_that_is_none(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_value(text, 5, "json")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["cursor", "id", "x"]), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_what_is_given_as_json_is_taken_as_it_is(value: Json, present: Json) -> None:
    assert json.dumps(parse_value(json.dumps(value), present, "json").value) == json.dumps(value)


@given(st.text(max_size=12) | st.text("0123456789.eE+-[]{}\"", max_size=12), VALUES)
def test_any_text_is_itself_or_the_json_that_it_spells(text: str, present: Json) -> None:
    value = parse_value(text, present).value
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    if not isinstance(present, dict):
        assert value == text or json.dumps(value) == json.dumps(json.loads(text))
    elif isinstance(value, dict) and value != present and not text.lstrip().startswith("{"):
        assert sum(value[name] != present[name] for name in present) == 1 and value.keys() == present.keys()
