"""Parsing of typed cursor values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.cursors.model import parse_value, type_change
from spooltop.model.vocabulary import Json


@pytest.mark.parametrize(
    ("text", "present", "kind", "value", "words"),
    [
        ("89640", 89632, "", 89640, "an integer"), ("89640", "89632", "", "89640", "a string, as it is now"),
        ("89640", "tok", "", "89640", "a string, as it is now"), ("8", {"a": 1, "b": 2}, "", 8, "an integer"),
        *((text, 5, "", text, "a string") for text in ("007", "tok en", "NaN", "1e999", "[-1e999]")),
        ('"89640"', 89632, "", "89640", "a string"), ('"x"', "tok", "", "x", "a string"), ("null", 5, "", None, "null"),
        ("2026-11-21T02:41:09Z", "2026-11-20T00:00:00Z", "", "2026-11-21T02:41:09Z", "a string"),
        ("8", {"last_rowid": 7, "last_run": 9.5}, "", {"last_rowid": 8, "last_run": 9.5}, "an integer, in its field last_rowid"),
        ("8", {"cursor": "7"}, "", {"cursor": "8"}, "a string, as it is now, in its field cursor"),
        ('{"cursor": 9}', {"cursor": 7, "x": 1}, "", {"cursor": 9}, "an object"), ("[1]", 7, "", [1], "a list"),
        ("8", {"cursor": 7}, "json", 8, "JSON, as asked"), ("8", "7", "json", 8, "JSON, as asked"),
        ("8", 7, "text", "8", "a string, as asked"), ("8", None, "", 8, "an integer"),
        ("1e999", {"cursor": 7, "x": 1}, "", {"cursor": "1e999", "x": 1}, "a string, in its field cursor"),
    ],
)  # fmt: skip
def test_what_is_meant(text: str, present: Json, kind: str, value: Json, words: str) -> None:
    found = parse_value(text, present, kind)
    assert (found.value, type(found.value), found.words) == (value, type(value), words)


BIG = 2**70


@pytest.mark.parametrize(
    ("text", "present", "change"),
    [
        ("147", 146, ""), ("-1", 146, ""), (f"{BIG}", 146, ""), ("5", BIG, ""), ("147", "146", ""), ("hello", "146", ""),
        ('"146"', "145", ""), ("147", None, ""), ("x", None, ""), ("2", 1.5, ""), ("2.5", 1.5, ""), ("false", True, ""),
        ("[2]", [1], ""), ("8", {"last_id": 7, "at": 1.5}, ""), ('{"last_id": 8}', {"last_id": 7, "at": 1.5}, ""),
        ('{"a": {"b": 2, "c": "x"}}', {"a": {"b": 1}}, ""), ('{"last_id": 8, "at": 2}', {"last_id": 7, "at": 1.5}, ""),
        ("hello", 146, "from an integer to a string"), ('"147"', 146, "from an integer to a string"),
        ("007", 146, "from an integer to a string"), ("1e3", 146, "from an integer to a decimal number"),
        ("147.0", 146, "from an integer to a decimal number"), ("1E400", BIG, "from an integer to a string"),
        ("true", 1, "from an integer to a boolean"), ("1", True, "from a boolean to an integer"),
        ("null", 146, "from an integer to null"), ("null", "146", "from a string to null"),
        ("1e3", "146", "from a string to a decimal number"), ("true", "146", "from a string to a boolean"),
        ("[1]", 146, "from an integer to a list"), ('{"id": 147}', 146, "from an integer to an object"),
        ("8", {"a": 1, "b": 2}, "from an object to an integer"), ("x", 1.5, "from a decimal number to a string"),
        ("x", {"last_id": 7, "n": "x"}, "from an integer to a string in its field last_id"),
        ('{"a": {"b": "1"}}', {"a": {"b": 1}}, "from an integer to a string in its field b"),
        ('{"\\u001b": "1"}', {"\x1b": 1}, r"from an integer to a string in its field \x1b"),
    ],
)  # fmt: skip
def test_a_value_keeps_its_type_or_says_how_it_changes(text: str, present: Json, change: str) -> None:
    assert type_change(present, parse_value(text, present).value) == change


@given(st.integers(1, 300))
def test_the_types_of_nested_objects_are_compared_to_the_last(depth: int) -> None:
    one: Json = 1
    two: Json = "1"
    for _ in range(depth):
        one, two = {"x": one}, {"x": two}
    assert type_change(one, two) == "from an integer to a string in its field x"
    assert type_change(one, one) == ""


@pytest.mark.parametrize(
    ("text", "why"), [("tok", "Expecting value"), ("NaN", "is not JSON"), ("", "Expecting"), ("1e999", "too large"),
    ("[" * 1_000_000, "nested too deep")]
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
