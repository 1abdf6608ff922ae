from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spooltop.engine import names

TOKEN = "0123456789abcdef" * 2
US = 1_795_220_920_443_125
on_disk = st.binary(min_size=1, max_size=60).filter(lambda b: b"/" not in b and b"\0" not in b and b[:1] != b".").map(os.fsdecode)
ids = st.binary(min_size=1, max_size=30).map(os.fsdecode)


@given(on_disk)
@example("x" * 200)
@example("x,n=01")
@example("x,n=1,s=y")
@example(",n=1")
@example("x:2,")
def test_no_name_breaks_the_parser_and_a_claim_gives_back_what_was_claimed(name: str) -> None:
    parsed = names.parse(name, claimed=False)
    assert parsed.base == name
    claimed = names.parse(names.in_cur(name, TOKEN, US, 4242), claimed=True)
    assert claimed.base == name and claimed.id == parsed.id and claimed.token == TOKEN
    assert (claimed.claimed_us, claimed.pid) == (US, 4242)
    if not parsed.own:
        assert parsed.id == name and parsed.attempts is None and names.requeued_name(claimed, not_before=5) == name


@given(
    ids,
    st.none() | st.text("abcZ09._-", min_size=1, max_size=12) | st.just("a b"),
    st.integers(0, 9999),
    st.none() | st.integers(0, 10**16),
    st.booleans(),
    st.none() | st.text("abcZ09._-ü ", min_size=1, max_size=8).filter(lambda text: len(names.encode_value(text)) <= 24),
)
def test_what_was_said_is_what_is_read(
    id: str, source: str | None, attempts: int, not_before: int | None, canary: bool, ended: str | None
) -> None:
    name = names.in_new(id, source=source, attempts=attempts, not_before=not_before, canary=canary, ended=ended)
    read = names.parse(name, claimed=False)
    room = names.MAX_NEW - len(names.in_new(id, source=source, attempts=attempts, not_before=not_before, canary=canary))
    assert read.ended == (ended if ended and len(names.encode_value(ended)) + 3 <= room else None)
    assert (read.id, read.source, read.attempts, read.not_before, read.canary) == (id, source, attempts, not_before, canary)
    assert read.own and "/" not in name and not name.startswith(".") and name.isascii()
    assert names.not_before(name) == not_before
    again = names.parse(names.requeued_name(names.parse(names.in_cur(name, TOKEN, US, 1), claimed=True)), claimed=False)
    assert again.ended is None
    assert (again.id, again.source, again.attempts, again.not_before, again.canary) == (id, source, attempts + 1, None, canary)


@pytest.mark.parametrize(
    ("said", "stands"), [("x" * 30, "x" * 24), ("ü" * 5, "%C3%BC" * 4), ("a" + "ü" * 4, "a" + "%C3%BC" * 3 + "%C3")]
)
def test_how_an_attempt_ended_takes_24_bytes_at_most(said: str, stands: str) -> None:
    assert names.in_new("x", attempts=1, ended=said) == f"x,n=1,e={stands}"


@pytest.mark.parametrize(
    "name",
    [
        "x,e=", "x,e=" + "y" * 25, "x,e=a,n=1", "x,n=1,e=a%2f", "x,n=1,e=a,e=b", "x,n=01", "x,n=1,s=y", ",n=1",
        "a:b,n=1", "[x],n=1", "a%2fb,n=1", "%41%,n=1",
    ],
)  # fmt: skip
def test_an_attribute_that_we_never_write_so_is_part_of_a_foreign_name(name: str) -> None:
    parsed = names.parse(name, claimed=False)
    assert not parsed.own and parsed.id == name


@pytest.mark.parametrize("encoded", ["%", "%2", "%zz", "%2f", "a b", "a/b"])
def test_what_was_never_encoded_is_refused(encoded: str) -> None:
    with pytest.raises(ValueError, match="not an encoded value"):
        names.decode_value(encoded)


def test_an_own_id_stands_as_it_is_and_differs_from_one_of_the_same_moment_and_pid_in_another_container() -> None:
    id, another = (names.new_id(US, 4242, "a host/with ü and much too long a name for it") for _ in range(2))
    assert names.is_own_id(id) and names.in_new(id) == id != another
    parsed = names.parse(id, claimed=False)
    assert parsed.own and parsed.id == id and parsed.attempts == 0 and parsed.enqueued_us == US


@pytest.mark.parametrize(
    ("raw", "id", "pid", "flags"),
    [
        ("1795220920443125.9155.vm:2,P4242", "1795220920443125.9155.vm", 4242, None), ("x:2,PS", "x", None, "PS"),
        ("1795220920446046.9155.vm:P4242", "1795220920446046.9155.vm", 4242, None),
        ("1795220919.M781490P9155Q1.vm:2,FS", "1795220919.M781490P9155Q1.vm", None, "FS"),
        *((name, name, None, None) for name in ("x:2,P42\n", "x:2,P٤٢", ":2,P42", "x:2,P42.bak")),
    ],
)  # fmt: skip
def test_tails_are_read_only_at_the_end_and_in_the_exact_forms(raw: str, id: str, pid: int | None, flags: str | None) -> None:
    parsed = names.parse(raw, claimed=True)
    assert (parsed.id, parsed.pid, parsed.flags, parsed.token) == (id, pid, flags, None)
    assert names.parse(raw, claimed=False).id == raw


@pytest.mark.parametrize(
    ("name", "us"),
    [
        ("1795220920443125.P1R0.h", US), ("1795220919.M781490P9155Q1.vm", 1_795_220_919_781_490),
        ("1795220919.x", 1_795_220_919_000_000), ("17952209204431259", None), ("order-17", None), ("", None),
    ],
)  # fmt: skip
def test_the_time_at_the_beginning_of_a_name(name: str, us: int | None) -> None:
    assert names.enqueued_us(name) == us


def test_a_tail_always_fits_on_a_name_that_may_be_claimed() -> None:
    longest = "x" * (names.MAX_NAME - names.TAIL_ROOM)
    assert names.claimable(longest) and not names.claimable(longest + "x")
    assert not names.claimable("ü" * 100)
    assert len(names.in_cur(longest, TOKEN, US, 4_194_304)) == names.MAX_NAME
