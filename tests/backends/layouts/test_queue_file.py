"""Queue files of Postfix: time and sender from the envelope, and nothing from a file that somebody forged."""

from __future__ import annotations

import random

import pytest

from spooltop.backends.layouts.definition.units import domain_of, time_of
from spooltop.backends.layouts.queue_file import ENVELOPE, record


def made(*records: tuple[str, bytes]) -> bytes:
    """A file of these records."""
    out = b""
    for letter, text in records:
        length, size = len(text), b""
        while length > 0x7F:
            size += bytes([length & 0x7F | 0x80])
            length >>= 7
        out += letter.encode() + size + bytes([length]) + text
    return out


FILE = made(("C", b"  276 "), ("T", b"1795402546 669465"), ("A", b"x" * 300), ("S", b"Ann@Shop.example"), ("R", b"b@c.example"),
            ("M", b""), ("N", b"S: forged"), ("S", b"late@message.example"))  # fmt: skip


@pytest.mark.parametrize(
    ("data", "letter", "text"),
    [
        (FILE, "T", "1795402546 669465"),
        (FILE, "S", "Ann@Shop.example"),
        (FILE, "Q", None),
        (made(("T", b"1"), ("M", b""), ("S", b"in@the.message")), "S", None),
        (made(("S", b"")), "S", ""),
        (b"", "S", None),
        (b"S", "S", None),
        (b"S\xff\xff\xff\xff\xff\xff\xff\x01x", "S", None),
        (b"S\x7fshort", "S", None),
        (b"T\x80", "S", None),
        (b"\x00" * ENVELOPE, "S", None),
    ],
)
def test_the_first_record_of_a_kind(data: bytes, letter: str, text: str | None) -> None:
    assert record(data, letter) == text


def test_no_bytes_make_it_raise_or_read_past_the_end() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        data = bytes(chance.choices(b"TSARM\x00\x01\x10\x7f\x80\xff", k=chance.randrange(60)))
        found = record(data, "S")
        assert found is None or len(found.encode("utf-8", "replace")) <= 3 * len(data)
    for end in range(len(FILE)):
        assert record(FILE[:end], "S") in (None, "Ann@Shop.example")


@pytest.mark.parametrize(
    ("address", "domain"),
    [("Ann@Shop.Example", "shop.example"), ("root", "root"), ("", "MAILER-DAEMON"), ("a@b@c.example", "c.example")],
)
def test_the_domain_of_a_sender(address: str, domain: str) -> None:
    assert domain_of(address) == domain


@pytest.mark.parametrize(("text", "at"), [("1795402546 669465", 1795402546.669465), ("1795402546", 1795402546.0), ("x 1", None)])
def test_the_time_of_a_queue_file(text: str, at: float | None) -> None:
    assert time_of("timeval", text) == at
