"""TOML of others: what is taken, and what would take seconds and gigabytes."""

from __future__ import annotations

import tracemalloc

import pytest

from spooltop.model.vocabulary import parse_toml

PART = ["a", '"a"', "'a'", '"a\\"b"', '"a.b"', "-", "7"]


@pytest.mark.parametrize("part", PART)
@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "[[{}]]", "x = {{ {} = 1 }}", "x = [ {{{} = 1}} ]", "ok = 1\n  {} = 1"])
@pytest.mark.parametrize("dot", [".", " . ", "\t."])
def test_a_key_of_many_parts_is_refused_before_it_costs_anything(part: str, form: str, dot: str) -> None:
    text = form.format(dot.join([part] * (60_000 // len(part + dot))))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"more than 32 parts \(at line {1 + form.count(chr(10))},"):
            parse_toml(text)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", ['"b".{} = 1', "'b'.{} = 1", '"\\"".{} = 1', "\"'\".{} = 1", '"\\"\\"x".{} = 1'])
def test_a_quoted_beginning_hides_nothing(end: str) -> None:
    with pytest.raises(ValueError, match="more than 32 parts"):
        parse_toml(end.format(".".join(["a"] * 5_000)))


LONG = ["a" * 60_000 + " = 1", "x = '" + "a b " * 15_000 + "'", "x = [" + "1.5, " * 15_000 + "]", 'x = "' + "'" * 60_000 + '"']


@pytest.mark.parametrize("text", LONG)
def test_what_is_long_and_not_deep_is_read(text: str) -> None:
    assert len(parse_toml(text)) == 1


def test_a_key_of_some_parts_is_read() -> None:
    assert parse_toml('claims.hosts = "any"\n[layouts]\n"/var/spool/a.b.c" = "nq"\n') == {
        "claims": {"hosts": "any"}, "layouts": {"/var/spool/a.b.c": "nq"},
    }  # fmt: skip


def test_quotation_marks_without_an_end_cost_little() -> None:
    with pytest.raises(ValueError, match="end of document"):
        parse_toml('"' + '\\"' * 30_000)
