"""A payload is saved to a file: whole, redacted as it is shown, and never over another file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.errors import Refused, Unreadable
from spooltop.model.backend import ListQuery
from spooltop.model.vocabulary import Box

from .driving import dashboard
from .fake import FakeControl, waiting


async def test_a_payload_is_saved_under_a_typed_name_and_not_twice() -> None:
    control = FakeControl([waiting(1)])
    control.payloads[("new", 1)] = b"x" * 100_000
    async with dashboard(control) as driver:
        await driver.walk(
            ("2", waiting(1).id), ("S", "Save the payload of", waiting(1).id + "█"),
            ("ctrl+u q . t x t enter", "saved 100,000 bytes to /home/ann/q.txt", "New 1"),
        )  # fmt: skip
        assert control.saved == {"q.txt": b"x" * 100_000}
        await driver.walk(
            ("enter S ctrl+u enter", "type a name"), ("q . t x t enter", "not saved: q.txt: exists already; give another name"),
        )  # fmt: skip
        await driver.press("escape")
        await driver.gone("Save the payload")


def test_the_whole_payload_is_saved_redacted_and_only_for_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Spool.create(tmp_path / "s", durable=False) as spool:
        spool.put(b'{"token": "secret", "text": "' + b"a" * 200_000 + b'"}')
    with open_control(str(tmp_path / "s"), watch=False, settings={"SPOOLTOP_REDACT": "token"}) as control:
        control.look()
        row = control.listing(ListQuery(Box.NEW)).window(0, 1)[0]
        path, size = control.save(row.key, "copy")
        saved = (tmp_path / "copy").read_bytes()
        assert (path, size) == (str(tmp_path / "copy"), len(saved)) and len(saved) > 200_000
        assert b"secret" not in saved and os.stat(path).st_mode & 0o777 == 0o600
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        for name in ("copy", "link", "no/such/folder", "s", "a\0b"):
            with pytest.raises(Refused):
                control.save(row.key, name)
        assert not (tmp_path / "elsewhere").exists() and (tmp_path / "copy").read_bytes() == saved
        with pytest.raises(Unreadable):
            control.save(("new", "gone"), "other")
        assert not (tmp_path / "other").exists()
