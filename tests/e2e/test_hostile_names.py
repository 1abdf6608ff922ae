"""Hostile names in the dashboard on a real terminal: no byte of their escape sequences reaches it."""

from __future__ import annotations

import os
from pathlib import Path

from spooltop.engine import Spool

from .terminal import SPOOLTOP, Terminal

SEQUENCES = (
    b"\x1b[31m", b"\x1b]0;owned\x07", b"\x1b]52;c;cm0=\x1b\\", b"\x1b[?1049l", b"\x1bc", b"\x9b31m", b"\xc2\x9b31m", b"\x07",
    b"\x08\x08", b"\n", b"\r", "\u202e".encode(), "\u2028".encode(), b"\xff\xfe", b"[red]", b"%s{0}",
)  # fmt: skip


def test_no_name_speaks_to_the_terminal(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    Spool.create(spool, durable=False).close()
    for number, piece in enumerate(SEQUENCES):
        for box, tail in (("new", b""), ("cur", b":2,P4194999")):
            with open(os.path.join(os.fsencode(spool / box), b"n%d" % number + piece + b"~" + tail), "wb") as file:
                file.write(piece + b"~")
    with Terminal([*SPOOLTOP, str(spool)], cols=160, rows=40) as screen:
        screen.wait_for("1Over")
        steps = (("2", "New 16"), ("\r", "Esc back"), ("q", "New 16"), ("3", "Claims 16"), ("a", "16 marked"), ("d", "Esc"))
        for key, seen in steps:
            screen.type(key)
            screen.wait_for(seen)
        screen.wait_for("n0\\x1b[31m~")
        assert "[red]~" in screen.text and "%s{0}~" in screen.text
        raw = bytes(screen.raw)
    for piece in SEQUENCES:
        if not piece.isascii() or not piece.decode().isprintable():
            assert piece + b"~" not in raw, piece
    assert b"owned" not in raw.replace(b"\\x1b]0;owned\\x07", b"")
    assert "owned" not in screen.screen.title
