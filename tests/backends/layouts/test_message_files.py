"""Messages that are directories with a file for each part: their size, and what is shown of them."""

from __future__ import annotations

import os
from pathlib import Path

from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Box
from tests.backends.layouts.test_reader import reader
from tests.builders import LAYOUTS


def test_a_message_that_is_a_directory_shows_all_its_files(tmp_path: Path) -> None:
    LAYOUTS["dirq-normal"](tmp_path / "q")
    element = tmp_path / "q/6b00e590/6b00e5b7c2217f"
    (element / "header").write_text("to=you\n")
    (element / "link").symlink_to("/etc/passwd")
    growing = tmp_path / "q/temporary/6b00e5b7c2ffff"
    growing.mkdir()
    one = reader(tmp_path / "q", "dirq-normal")
    one.see()
    row = next(row for row in one.listing(ListQuery(Box.NEW)).window(0, 9) if row.id == element.name)
    payload = one.read(row.key, 999)
    assert payload.data == b"[body]\nbody of 6b00e5b7c2217f\n[header]\nto=you\n"
    assert (row.size, payload.size, payload.truncated) == (22 + 7, 22 + 7, False)
    assert ("files", "body 22B, header 7B") in payload.facts
    short = one.read(row.key, 10)
    assert (short.data, short.size, short.truncated) == (b"[body]\nbody of 6b", 22 + 7, True)
    assert one.read(row.key, short.size).data == payload.data
    alone = one.read((Box.NEW.value, "6b00e590/6b00e5b7c22b9f"), 999)
    assert (alone.data, alone.truncated) == (b"body of 6b00e5b7c22b9f", False)
    assert [row.size for row in one.listing(ListQuery(Box.TMP)).window(0, 9)] == [0]
    (growing / "body").write_text("12")
    os.utime(growing, ns=(1, 1))
    one.see()
    (growing / "body").write_text("12345")
    one.see()
    assert [row.size for row in one.listing(ListQuery(Box.TMP)).window(0, 9)] == [5]
    one.close()


def test_a_directory_with_too_many_files_is_not_measured(tmp_path: Path) -> None:
    LAYOUTS["dirq-normal"](tmp_path / "q")
    element = tmp_path / "q/6b00e590/6b00e5b7c2217f"
    for number in range(200):
        (element / f"part{number}").write_text("x")
    os.mkfifo(element / "pipe")
    look = reader(tmp_path / "q", "dirq-normal")
    look.see()
    row = next(row for row in look.listing(ListQuery(Box.NEW)).window(0, 9) if row.id == element.name)
    payload = look.read(row.key, 65536)
    assert row.size is None and dict(payload.facts)["files"].endswith(", and more")
    assert 90 <= payload.data.count(b"\n[part") + payload.data.startswith(b"[part") <= 100
    look.close()
