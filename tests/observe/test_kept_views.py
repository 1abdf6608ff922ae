"""The view and the orders of each target, kept from one dashboard to the next: what the file may and may not do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.kept_view import KeptView
from spooltop.model.protocols import Sort
from spooltop.observe.kept_views import MOST, NAME, ViewFile, decode_views, encode_views

ONE = KeptView("claims", {"cur": Sort("size", False), "consumers": Sort("name", True)}, "age:>1m é\n\udcff")


def test_what_was_written_is_read_by_the_next_one_for_this_target_only(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "spooltop"
    assert ViewFile(str(folder), "/var/spool/x").write(ONE)
    assert ViewFile(str(folder), "/var/spool/x").read() == ONE
    assert ViewFile(str(folder), "/var/spool/y").read() == KeptView()
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / NAME).stat().st_mode & 0o777 == 0o600


def test_the_target_that_changed_longest_ago_is_dropped(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(encode_views({f"/{number}": KeptView("new") for number in range(MOST)}))
    assert ViewFile(str(tmp_path), "/0").write(ONE) and ViewFile(str(tmp_path), "/more").write(ONE)
    assert list(decode_views((tmp_path / NAME).read_bytes())) == [f"/{number}" for number in range(2, MOST)] + ["/0", "/more"]


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[" * 100_000, b"[]", b'{"schema": 2, "targets": {"/x": {"view": "new"}}}', b'{"schema": 1, "targets": [1]}',
     b'{"schema": 1, "targets": {"/x": 7}}', b'{"schema": 1, "targets": {"/x": {"view": 1, "sorts": [], "last_filter": {}}}}',
     b'{"schema": 1, "targets": {"/x": {"sorts": {"cur": 1}}}}', b'{"schema": 1, "targets": {}}' + b" " * (2 << 20) + b"x"],
    ids=range(10),
)  # fmt: skip
def test_what_cannot_be_read_is_ignored_and_replaced(tmp_path: Path, data: bytes) -> None:
    (tmp_path / NAME).write_bytes(data)
    assert ViewFile(str(tmp_path), "/x").read() == KeptView()
    assert ViewFile(str(tmp_path), "/x").write(ONE) and ViewFile(str(tmp_path), "/x").read() == ONE


def test_a_link_or_a_fifo_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "elsewhere").write_bytes(encode_views({"/x": ONE}))
    (tmp_path / "a" / NAME).symlink_to(tmp_path / "elsewhere")
    assert ViewFile(str(tmp_path / "a"), "/x").read() == KeptView()
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b" / NAME)
    assert ViewFile(str(tmp_path / "b"), "/x").read() == KeptView()


def test_a_folder_of_another_user_is_neither_trusted_nor_written(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(encode_views({"/x": ONE}))
    before = sorted(os.listdir(tmp_path))
    other = ViewFile(str(tmp_path), "/x", user=os.geteuid() + 1)
    assert other.read() == KeptView() and not other.write(KeptView("new"))
    assert sorted(os.listdir(tmp_path)) == before and ViewFile(str(tmp_path), "/x").read() == ONE


def test_root_makes_no_folder_in_the_home_of_another_user(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 1000, 1000)
    assert not ViewFile(str(tmp_path / "home" / "spooltop"), "/x", user=0).write(ONE)
    assert not (tmp_path / "home").exists()


def test_without_a_home_or_with_one_that_cannot_be_written_nothing_is_kept_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (None, str(tmp_path / "file" / "spooltop"), "/proc/1/spooltop"):
        assert not ViewFile(folder, "/x").write(ONE) and ViewFile(folder, "/x").read() == KeptView()


def test_a_control_keeps_it_under_the_real_path(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", durable=False):
        (tmp_path / "link").symlink_to(tmp_path / "s")
    settings = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with open_control(str(tmp_path / "link"), watch=False, read_only=True, settings=settings) as control:
        assert control.kept_view() == KeptView() and control.keep_view(ONE)
    with open_control(str(tmp_path / "s"), watch=False, settings=settings) as control:
        assert control.kept_view() == ONE
    with open_control(str(tmp_path / "s"), watch=False, settings={}) as control:
        assert control.kept_view() == KeptView() and not control.keep_view(ONE)
