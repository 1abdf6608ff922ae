"""Names and payloads as an attacker makes them: what a terminal, a markup, a format of ours or a command line would obey."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

__all__ = ["LONGEST", "TOKEN", "made_name", "made_payload"]

LONGEST = 255
"""Bytes of a name, at most (NAME_MAX)."""
TOKEN = b"a" * 32
"""A consumer's, as our own claims name it."""

PIECES: tuple[bytes, ...] = (
    b"\x1b[31m", b"\x1b[2J", b"\x1b]0;owned\x07", b"\x1b]52;c;cm0gLXJm\x1b\\", b"\x1bP1$r\x1b\\", b"\x1bc",
    b"\x1b[?1049l", b"\x1b[6n",
    b"\x1b_G\x1b\\", b"\x07", b"\x08\x08\x08", b"\r", b"\n", b"\t", b"\x7f", b"\x0e", b"\x01", b"\xc2\x9b31m",
    b"\xc2\x9d0;x\xc2\x9c", b"\x9b31m", b"\x90x\x9c", b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    "\u202e".encode(), "\u2066\u2069".encode(), "\u200b".encode(), "\u200d".encode(), "\ufeff".encode(), "\u2028".encode(),
    "\u0085".encode(), "\u00ad".encode(), "e\u0301".encode(), ("o" + "\u0300" * 20).encode(), "\u0301".encode(),
    "日本語".encode(), "\u1100\u1161".encode(), "👩\u200d👩\u200d👧".encode(), "❤\ufe0f".encode(), "\u3164".encode(),
    "\U000e0041".encode(), "🇩🇪".encode(), "ﷺ".encode(), "\u0e33".encode(), b"[red]", b"[/]", b"[@click=app.quit]x[/]", b"[link=file://x]",
    b"$(id)", b"`id`", b"${HOME}", b"{placeholder}", b"{0}", b"{row.key}", b"%s%n", b"%2F", b"%zz", b"%",
    b"\\x1b", b"\\", b"\\\\", b"'", b'"', b" ",
    b"  ", b";rm -rf *", b"&", b"|", b"<script>", b"]]>", b"&#27;", b"*", b"?", b"~", b"!", b"#", b"=", b",", b":", b"..", b".",
    b",s=", b",s=%1B%5B31m", b",n=9", b",n=-1", b",t=9", b",x=1", b",c=", b",c=" + TOKEN + b".1", b":2,", b":2,P", b":2,S",
    b":2,P0", b":2,P99999999999999999999", b":P7", b"1795222800000000.P7R" + b"0" * 16 + b".vm", b"1795222800.M1P2.vm", b"9" * 30,
    b"src:x", b"age:>1", b"--yes", b"ALL", b"NaN", b"null", b'{"id":"x"}', b"a", b"Z", b"0",
)  # fmt: skip
WHOLE: tuple[bytes, ...] = (
    b"-", b"--", b"--help", b"-rf", b"ALL", b" ", b"   ", b"\xff" * LONGEST, b"\x1b" * LONGEST, b"a" * LONGEST,
    ("日" * 85).encode(), ("\u0301" * 127).encode(), b"~", b"*", b"%", b"{}", b"{x}", b"\\", b"'", b'"', b"\n", b"\n\n", b"seq",
    b"1795222800000000.P7R0000000000000007.vm,s=%zz,n=x,t=,x=2", b"1795222800000000.P7R0000000000000007.vm:2,P",
)  # fmt: skip
"""Names that are what they are as a whole."""


def made_name(number: int) -> bytes:
    """The name of this number, always the same one; two numbers have two names. At most 255 bytes; with a dot at the beginning it
    would be no message, and a ``/`` or a NUL is in no name."""
    if number < len(WHOLE):
        return WHOLE[number]
    dice = random.Random(number)
    tag = f"{number:x}".encode()
    pieces = [dice.choice(PIECES) for _ in range(dice.randint(1, 12))]
    if number % 11 == 0:
        pieces += [dice.randbytes(dice.randint(1, 40))]
    if number % 13 == 0:
        pieces += [dice.choice(PIECES)] * 255
    if number % 5 == 0:
        pieces.insert(0, b"-")
    room = LONGEST - len(tag) - 1
    if number % 7 == 0:  # the tag in front: then the end is whatever was made
        body = b"".join(pieces).translate(None, b"/\0")[:room]
        return tag + b"~" + body
    body = b"".join(pieces).translate(None, b"/\0").lstrip(b".")[:room]
    return body + b"~" + tag if body else tag


SECRET = "swordfish-{}"
"""Secret that must not be visible anywhere in a payload whose field is redacted."""


def made_payload(number: int) -> bytes:
    """A payload with what a terminal would obey, and, in JSON of some depth, a secret under ``token``."""
    dice = random.Random(number)
    secret = SECRET.format(number)
    noise = b"".join(dice.choice(PIECES) for _ in range(dice.randint(0, 60)))
    if number % 3 == 0:
        return noise + dice.randbytes(dice.randint(0, 3000))
    wraps: list[Callable[[object], object]] = [
        lambda thing: {"a": 1, "body": thing, "z": "[red]\x1b[31m"},
        lambda thing: [1, thing, "]", "}"],
        lambda thing: json.dumps(thing, ensure_ascii=dice.random() < 0.5),
        lambda thing: {"body": json.dumps(thing, indent=dice.choice((None, 1)))},
    ]
    words = noise.decode(errors="replace")
    hidden = dice.choice((secret, [secret], {"x": secret, "y": "}\""}))
    thing: object = {words: words, dice.choice(("token", "Token", "TOKEN")): hidden}
    for _ in range(dice.randint(0, 4)):
        thing = dice.choice(wraps)(thing)
    data = json.dumps(thing, ensure_ascii=dice.random() < 0.5).encode()
    return data[: dice.randint(1, len(data))] if number % 5 == 0 else data
