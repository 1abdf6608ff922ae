"""What a path is taken for, and the hint it gets where it is not quite a spool."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.backends.directory.detect import Target, identify, mail_signs
from spooltop.errors import NotASpool, SpooltopError
from spooltop.model.words import Box

ROOT = Path(__file__).parents[2]


def make(path: Path, *boxes: str) -> Path:
    for box in boxes or ("tmp", "new", "cur"):
        (path / box).mkdir(parents=True)
    return path


def said(path: str | Path) -> str:
    """What the error for ``path`` says; nothing may come into being on the way."""
    before = sorted(os.walk(os.path.dirname(path) or "."))
    with pytest.raises(SpooltopError) as caught:
        identify(str(path))
    assert sorted(os.walk(os.path.dirname(path) or ".")) == before
    assert caught.value.exit_code == 5
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("name", ["seed_maildirqueue", "seed_atomicfilequeue"])
def test_a_spool_of_other_programs_is_a_spool(real_spools: Path, name: str) -> None:
    assert identify(str(real_spools / name)) == Target("spool", str(real_spools / name))


def test_a_link_to_a_spool_is_followed(tmp_path: Path) -> None:
    make(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    assert identify(str(tmp_path / "link")).kind == "spool"


@pytest.mark.parametrize(("boxes", "missing"), [(("new", "cur"), Box.TMP), (("tmp", "new"), Box.CUR)])
def test_two_boxes_with_new_open_and_the_missing_one_is_named(tmp_path: Path, boxes: tuple[str, ...], missing: Box) -> None:
    assert identify(str(make(tmp_path / "s", *boxes))).missing == (missing,)


def test_two_boxes_without_new_are_no_spool(tmp_path: Path) -> None:
    assert "new missing, only tmp and cur there" in said(make(tmp_path / "s", "tmp", "cur"))


def test_a_mail_folder_is_read_only_and_says_why(real_spools: Path) -> None:
    path = str(real_spools / "maildir_stdlib")
    target = identify(path)
    assert target.kind == "mail"
    assert target.read_only is not None
    assert ":2,FS" in target.read_only
    assert f"spooltop --as spool {path}" in target.read_only
    assert identify(path, as_spool=True) == Target("spool", path)


@pytest.mark.parametrize(
    ("root", "new", "cur"),
    [
        (["dovecot-uidlist"], [], []),
        (["courierimapuiddb"], [], []),
        (["maildirfolder"], [], []),
        ([], [], ["x:2,S"]),
        ([], ["1795220919.M782871P9155Q3.vm"], []),
        ([], [], ["1795220919.M782871P9155Q3.vm:2,"]),
    ],
)
def test_signs_of_mail(root: list[str], new: list[str], cur: list[str]) -> None:
    assert mail_signs(root, new, cur)


@pytest.mark.parametrize(
    ("root", "new", "cur"),
    [
        ([".spooltop", "my-maildirfolder"], [], []),
        ([], ["1795220920443386.9155.vm", "report.txt", "a:2,S"], []),
        ([], [], ["1795220920443125.9155.vm:2,P4242", "x:P4242", "y:2,", "z:2,S1"]),
    ],
)
def test_a_job_spool_shows_no_signs_of_mail(root: list[str], new: list[str], cur: list[str]) -> None:
    assert mail_signs(root, new, cur) == ()


def test_a_mail_folder_with_many_folders_is_known_by_its_files(tmp_path: Path) -> None:
    make(tmp_path / "s")
    for number in range(400):
        (tmp_path / "s" / f".folder{number}").touch()
    (tmp_path / "s" / "dovecot-uidlist").touch()
    assert identify(str(tmp_path / "s")).kind == "mail"


def test_cursors_alone(real_spools: Path) -> None:
    folder = str(real_spools / "seed_cursors")
    assert identify(folder) == Target("cursors", folder)
    assert identify(folder + "/cursors.json") == Target("cursors", folder)


def test_one_cursor_file_a_source(tmp_path: Path) -> None:
    (tmp_path / "c" / "cursors").mkdir(parents=True)
    (tmp_path / "c" / "cursors" / "imessage.json").write_text("1")
    assert identify(str(tmp_path / "c")).kind == "cursors"


def test_tickets(real_spools: Path) -> None:
    path = str(real_spools / "stouputils_lockfifo" / "job.lock.queue")
    assert identify(path) == Target("tickets", path)
    assert f"spooltop {path}" in said(real_spools / "stouputils_lockfifo")


def test_a_typo_names_what_is_near(tmp_path: Path) -> None:
    make(tmp_path / "memex")
    assert f"did you mean {tmp_path}/memex?" in said(tmp_path / "memx")


def test_a_typo_in_the_middle_names_the_whole_path(tmp_path: Path) -> None:
    make(tmp_path / "spools" / "memex")
    assert f"did you mean {tmp_path}/spools/memex?" in said(tmp_path / "spool" / "memex")


def test_nothing_near_offers_to_make_one(tmp_path: Path) -> None:
    assert f"spooltop init {tmp_path}/q" in said(tmp_path / "q")


def test_an_empty_path() -> None:
    with pytest.raises(NotASpool):
        identify("")


def test_a_nul_byte() -> None:
    with pytest.raises(NotASpool, match="NUL"):
        identify("a\0b")


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert "a file" in said(tmp_path / "f")


def test_a_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert said(tmp_path / "f" / "new").startswith(f"{tmp_path}/f: a file")


def test_a_message_names_its_spool(real_spools: Path) -> None:
    spool = real_spools / "seed_atomicfilequeue"
    assert f"spooltop {spool} " in said(spool / "new" / "report.txt")


def test_a_box_names_its_spool(real_spools: Path) -> None:
    spool = real_spools / "seed_maildirqueue"
    text = said(spool / "cur")
    assert "only the box cur" in text
    assert text.endswith(f"spooltop {spool}")


def test_below_spooltop_names_its_spool(tmp_path: Path) -> None:
    make(tmp_path / "s")
    (tmp_path / "s" / ".spooltop" / "held").mkdir(parents=True)
    assert f"spooltop {tmp_path}/s" in said(tmp_path / "s" / ".spooltop")


def test_a_parent_of_spools_names_them(real_spools: Path) -> None:
    text = said(real_spools)
    assert f"{real_spools}/seed_maildirqueue" in text
    assert f"{real_spools}/seed_atomicfilequeue" in text


def test_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    assert said(tmp_path / "e").endswith(f"spooltop init {tmp_path}/e")


@pytest.mark.parametrize(
    ("name", "layout"), [("dirq_simple", "dirq"), ("huey_filestorage", "huey"), ("jobqueue_filestorage", "job-queue")]
)
def test_foreign_layouts_are_named(real_spools: Path, name: str, layout: str) -> None:
    assert layout in said(real_spools / name)


def test_something_else_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "d" / "x").mkdir(parents=True)
    assert "tmp, new and cur are missing" in said(tmp_path / "d")


def test_a_box_that_is_a_link_is_said_so(tmp_path: Path) -> None:
    make(tmp_path / "s", "tmp", "new")
    (tmp_path / "s" / "cur").symlink_to(tmp_path)
    assert "its cur is a symbolic link" in said(tmp_path / "s")


def test_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("nowhere")
    assert "link to nothing" in said(tmp_path / "l")


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("l")
    assert "circle" in said(tmp_path / "l")


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    assert "not a directory" in said(tmp_path / "p")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that any user can reach."""
    path = Path(tempfile.mkdtemp(prefix="spooltop-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def said_to_nobody(path: Path) -> str:
    """What the hint says to a user without any rights here."""
    code = """if True:
        import os, sys
        from spooltop.backends.directory.detect import identify
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        try:
            print(identify(sys.argv[1]))
        except Exception as error:
            print(type(error).__name__, error)
    """
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize("closed", [".", "s", "s/new"])
def test_no_permission_names_the_owner(shared_folder: Path, closed: str) -> None:
    inner = shared_folder / "deep"
    spool = make(inner / "s")
    for box in ("tmp", "new", "cur") if closed == "s/new" else (".",):
        (spool / box if closed == "s/new" else inner / closed).chmod(0o700)
    text = said_to_nobody(spool)
    assert text.startswith("Unreadable")
    assert f"sudo -u root spooltop {spool}" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_one_closed_box_still_opens(shared_folder: Path) -> None:
    spool = make(shared_folder / "s")
    (spool / "cur").chmod(0o700)
    assert said_to_nobody(spool).startswith("Target(kind='spool'")
