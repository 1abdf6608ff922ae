"""The filter: what it finds, what it refuses, and that typing never breaks it."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.cursors.draw import cursor_facts
from spooltop.cursors.model import Cursor
from spooltop.errors import UsageError
from spooltop.locks.draw import lock_facts
from spooltop.model.plan import OperationRecord
from spooltop.model.query import Words, operation_facts, parse
from spooltop.model.vocabulary import Action, Box, Lock, LockHolder, Owner, Row, Verdict, escape
from tests.clock import NOW


def row(name: str = "1795222801446548.4290.vm", box: Box = Box.CUR, **rest: Any) -> Row:
    rest.setdefault("id", name)
    return Row(key=name, box=box, name=name, **rest)


CLAIM = row(
    in_box_since=NOW - 700, source="imessage", attempt=4, verdict=Verdict.DEAD, evidence="exited · 4 died with it",
    owner=Owner(pid=4312, command="worker.py"), ended="exit-1",
)  # fmt: skip
WAITING = row(box=Box.NEW, in_box_since=NOW - 5, source="日本語")
NO_SOURCE = row(box=Box.NEW, in_box_since=NOW - 5)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True), ("  ", True), ("4290", True), ("!4290", False), ("worker.py", True), ("imess", True), ("Worker", False),
        ("died", True), ('"died with"', True), ("died with", True), ("died without", False), ("age:>10m", True),
        ("age:<10m", False),
        ("age:>=700", True), ("!age:>10m", False), ("src:imessage", True), ("src:imess", True),
        ("src:=imess", False), ("src:=imessage", True), ("source:sage", True), ("src:email", False), ("!src:email", True),
        ("pid:4312", True), ("pid:431", False), ("tries:>3", True), ("tries:4", True), ("tries:=4", True), ("tries:3", False),
        ("tries:<=4", True), ("verdict:dead", True), ("verdict:DEAD", True), ("!verdict:dead", False),
        ("age:>10m verdict:dead src:imessage", True), ("age:>10m verdict:alive", False), ('src:""', False),
        # Globs match the whole
        ("src:im*", True), ("src:*age", True), ("src:i?z*", False), ("src:i?es*", True), ("src:mess*", False), ("src:*", True),
        ("!src:im*", False), ("src:=im*", False), ('src:"im*"', False), ("id:4290", True), ("id:*.vm", True), ("id:*.v", False),
        ("id:worker", False), ("*.vm", True), ("*.v", False), ("1795*4290*", True), ("1795*4290", False), ("worker.?y*", True),
        ('"*.vm"', False), ("error:exit", True), ("error:exit-?*", True), ("error:timeout", False), ("!error:timeout", True),
    ],
)  # fmt: skip
def test_terms(text: str, found: bool) -> None:
    assert parse(text).match(CLAIM, NOW) is found


@pytest.mark.parametrize("box", [Box.CUR, Box.TMP])
@pytest.mark.parametrize("text", ["age:>1s", "age:<1s", "tries:1", "tries:>0", "verdict:alive", "verdict:dead", "pid:1"])
def test_what_is_not_known_matches_neither_way(box: Box, text: str) -> None:
    assert not parse(text).match(row(box=box), NOW)
    assert not parse("!" + text).match(row(box=box), NOW)


def test_a_message_that_waits_has_no_verdict_and_no_holder_and_its_source_is_found_as_it_is_shown() -> None:
    for text, found in {
        "!verdict:dead !pid:4312": True, "verdict:unknown": False, "src:日本": True, "src:=日本": False, "src:日本語": True,
        "!src:本": False, 'src:""': False,
    }.items():  # fmt: skip
        assert parse(text).match(WAITING, NOW) is found
    assert parse('src:""').match(NO_SOURCE, NOW)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("[red]x[/]", "[red]"), ("a\x1b[31mb", "\\x1b[31m"), ("2026-11-21T02:41:09.json", "02:41:09"), ("src:x", '"src:x"'),
        ("x!y", "x!"), ("!y", '"!y"'), ("two words", '"two words"'), ('say "hi"', '"say ""hi"""'),
        (os.fsdecode(b"caf\xe9"), "\\xe9"), ("1795220920443125.9155.vm:2,P4242", ":2,P4242"),
    ],
)
def test_names_of_others_are_found_as_shown(name: str, text: str) -> None:
    assert parse(text).match(row(name), NOW)
    assert not parse("!" + text).match(row(name), NOW)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("age:10m", "age:>10m"), ("age:>", "10m"), ("age:>soon", "10m"), ("tries:x", "tries:>3"), ("pid:>3", "pid:4312"),
        ("verdict:gone", "abandoned"), ("src:", "src:imessage"), ("!", "some text"), ('"open', "two words"),
        ("sourc:x", "source:"), ("ages:>3", "age:"), ("verdit:dead", "verdict:"), ("depth:>3", "age: src:"),
        ("id:", "id:6548"), ("error:", "exit-1"),
    ],
)  # fmt: skip
def test_wrong_terms_say_what_would_be_right(text: str, advice: str) -> None:
    with pytest.raises(UsageError, match=advice) as refused:
        parse(text)
    lenient = parse(text, lenient=True)
    if text == '"open':  # a text that goes on
        assert (lenient.hint, len(lenient.terms)) == ("", 1)
    else:
        assert (lenient.hint, lenient.terms) == (str(refused.value), ())


def test_while_typing_a_half_term_is_left_out_and_told() -> None:
    query = parse("4290 age:>", lenient=True)
    assert [str(term) for term, _ in query.terms] == ["4290"]
    assert "10m" in query.hint
    assert query.match(CLAIM, NOW)


TERM = st.one_of(
    st.text(min_size=1, max_size=12),
    st.sampled_from(
        ["age:>10m", "!age:<5s", "src:imessage", "pid:4312", "tries:>3", "tries:3", "verdict:dead", "!x", 'src:"a b"',
         "src:a*", "*.x", "id:7", "error:a*"]
    ),
)


@given(st.lists(TERM, max_size=5).map(" ".join))
def test_nothing_typed_breaks_it_and_what_it_understood_reads_back(text: str) -> None:
    query = parse(text, lenient=True)
    assert parse(str(query)).terms == query.terms
    query.match(CLAIM, NOW)


@given(st.text(min_size=1, max_size=20), st.booleans())
def test_any_text_can_be_looked_for_in_quotes(needle: str, negated: bool) -> None:
    text = ("!" if negated else "") + '"' + needle.replace('"', '""') + '"'
    assert parse(text).match(row(needle), NOW) is ((needle in escape(needle)) is not negated)


GLOB = st.text("ab*?", min_size=1, max_size=6).map(lambda glob: glob + "*")


@given(
    st.binary(min_size=1, max_size=30) | st.text("ab.", min_size=1, max_size=9).map(str.encode),
    st.text(alphabet="ab1x.%\\ -", min_size=1, max_size=6).map('"{}"'.format) | GLOB | GLOB.map("id:{}".format),
)
def test_the_test_on_bytes_never_loses_a_match(raw: bytes, text: str) -> None:
    query = parse(text)
    assert query.could_match(raw) or not query.match(row(os.fsdecode(raw), Box.NEW), NOW)


@pytest.mark.parametrize("text", ["foo:3", "!foo:3", "http://x"])
def test_an_unknown_key_is_refused_with_those_that_exist(text: str) -> None:
    with pytest.raises(UsageError, match=r"keys are age: src: id: pid: holder: tries: verdict: error:, or .* in quotes as text"):
        parse(text)
    lenient = parse(f"src:x {text}", lenient=True)
    assert str(lenient) == "src:x" and lenient.hint.startswith(f"unknown key {text.lstrip('!').partition(':')[0]}:")
    assert not parse('"foo:3"').hint and not parse("12:30").hint and not parse("src:x").hint


def test_a_glob_never_takes_long() -> None:
    assert not parse("*a" * 60 + "*b").match(row("a" * 250), NOW)


@given(st.text("ab?*", min_size=1, max_size=8), st.text("abc", max_size=8))
def test_a_glob_matches_as_in_a_shell(glob: str, text: str) -> None:
    assert Words(glob, glob=True).found_in(text) is fnmatchcase(text, glob)


def test_texts_to_point_out_are_those_that_what_matches_shows() -> None:
    assert parse("ab src:mem*x id:7 !no error:exit age:>1m *").texts == ("exit", "mem", "ab", "7", "x")


CURSOR = Cursor("imessage", 7, "7", "not advancing", "idle?", "/c/cursors.json", shared=True, moved_at=NOW - 90)
LOCK = Lock("/s/a.lock", "flock", (LockHolder(7, "rsync", since=NOW - 90),), (LockHolder(8),), "blocked")
OPERATION = OperationRecord("7f3a", Action.PURGE, NOW - 90, "root", 3, 2, failed=1)


@pytest.mark.parametrize(
    ("text", "cursor", "lock", "operation"),
    [
        ("a", True, True, True), ("idle?", True, False, False), ("src:im*", True, False, False), ("age:>1m", True, True, True),
        ("age:>2m", False, False, False), ("pid:8", False, True, False), ("!pid:9", True, True, True),
        ("id:7f", False, False, True),
        ("verdict:blocked", False, True, False), ('verdict:"not advancing"', True, False, False), ("rsync", False, True, False),
        ("purge", False, False, True), ("error:failed", False, False, True), ("tries:1", False, False, False),
        ("!tries:1", False, False, False),
    ],
)  # fmt: skip
def test_one_grammar_for_every_view(text: str, cursor: bool, lock: bool, operation: bool) -> None:
    found = parse(text, verdicts=("blocked", "not advancing"))
    facts = (cursor_facts(CURSOR, NOW), lock_facts(LOCK, "BLOCKED", NOW), operation_facts(OPERATION, NOW))
    assert [found.holds(one) for one in facts] == [cursor, lock, operation]
    assert parse(str(found), verdicts=("blocked", "not advancing")) == found


@pytest.mark.parametrize("name", [b"1.1.vm,s=%61bc", b"1.1.vm\\", "1.1.vm日".encode(), b"1.1.vm\x1b"])
def test_a_name_that_is_not_shown_as_its_bytes_is_never_sorted_out_by_them(name: bytes) -> None:
    assert parse("src:abc").could_match(name) and parse("x1b").could_match(name)
    assert not parse("src:abc").could_match(b"1.1.vm,s=xyz") and parse("src:bc").could_match(b"1.1.vm,s=abc")
