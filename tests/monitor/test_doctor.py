"""What ``doctor`` makes of the facts of a place: each warning and problem, with what to type; and what ``bench`` refuses."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spooltop.cli.commands import bench
from spooltop.cli.commands.bench import Answer, BenchRun, Job, check_room
from spooltop.cli.commands.doctor import Diagnosis, Examined, Health, diagnose, exit_code
from spooltop.errors import Refused
from spooltop.model.backend import Capabilities
from spooltop.model.snapshot import BoxState, Disk, Observation, Problem, Rates, Severity, Snapshot, VerdictCounts
from spooltop.model.target import (  # fmt: skip
    ClockState,
    FolderState,
    InotifyUse,
    Leftovers,
    MountState,
    PlaceFacts,
    PresenceFiles,
    Share,
    Trial,
)
from spooltop.model.vocabulary import Action, Box

NAMES = (".", "tmp", "new", "cur", ".spooltop")
TRIED = {
    name: Trial(seconds=0.001)
    for name in ("write", "sync-dir", "rename", "noreplace", "link", "locks-flock", "locks-ofd", "events", "time")
}


def folder(name: str, mode: int = 0o2770, uid: int = 5, *, mount: int = 1, device: int = 9, **more: Any) -> FolderState:
    return FolderState(name, stat.S_IFDIR | mode, uid, 6, f"user{uid}", "group6", device, mount, **more)


def place(**changes: Any) -> PlaceFacts:
    """A place in which all is well."""
    good: dict[str, Any] = {
        "path": "/spool", "layout": "spool", "mount": MountState("xfs", "/", "/dev/sda", frozenset({"rw"}), local=True),
        "folders": {name: folder(name) for name in NAMES}, "inotify": InotifyUse(8192, 128, 10, 5),
        "clock": ClockState(True, 0.01), "format": 2, "format_known": 2, "trials": TRIED, "kernel": "6.1.0-18-amd64",
        "user": "user5", "uid": 5,
    }  # fmt: skip
    return PlaceFacts(**{**good, **changes})


def seen(*problems: Problem, first: Snapshot | None = None, demos: tuple[str, ...] = (), **changes: Any) -> Examined:
    of_look = {name: changes.pop(name) for name in ("disk", "counts", "capabilities", "boxes") if name in changes}
    observation = Observation("/spool", changes.get("layout", "spool"), 1000.0, True, of_look.pop("boxes", {}))
    observation = replace(observation, **{"disk": Disk("xfs", 10**10, 10**11, 10**6, 10**7), **of_look})
    snapshot = Snapshot(observation, Rates(), (), problems)
    return Examined(place(**changes), snapshot, first or snapshot, demos)


def found(check: str, examined: Examined) -> Diagnosis:
    """The only result of a check that is not ok, or else its only one."""
    results = [one for one in diagnose(examined) if one.check == check]
    return next((one for one in results if one.health is not Health.OK), results[0])


def test_all_is_well_also_with_presence_files_of_exited_consumers() -> None:
    results = diagnose(seen(presence=PresenceFiles(0, 7)))
    assert [one for one in results if one.health is not Health.OK] == []
    assert exit_code(results) == 0
    assert {one.remedy for one in results} == {""}


def mounted(kind: str, *options: str, local: bool = True, journal: bool = True) -> MountState:
    return MountState(kind, "/mnt", "/dev/sdb", frozenset(options), local, journal)


def at(name: str, **changes: Any) -> dict[str, FolderState]:
    return {one: folder(one, **(changes if one == name else {})) for one in NAMES}


def tried(**failed: str) -> dict[str, Trial]:
    return {**TRIED, **{name.replace("_", "-"): Trial(error) for name, error in failed.items()}}


@pytest.mark.parametrize(
    ("check", "health", "words", "remedy", "changes"),
    [
        ("file-system", "warning", "memory", "init a path on a disk", {"mount": mounted("tmpfs")}),
        ("file-system", "warning", "belongs to a container", "volume", {"mount": mounted("overlay")}),
        ("file-system", "warning", "other machines", "this-machine", {"mount": mounted("nfs4", local=False)}),
        ("file-system", "warning", "not known", "df -T", {"mount": MountState()}),
        ("file-system", "warning", "no journal", "ext4", {"mount": mounted("ext2")}),
        ("file-system", "problem", "neither owners nor links", "move the spool", {"mount": mounted("vfat")}),
        ("journal", "warning", "without a journal", "umount /mnt, then: tune2fs", {"mount": mounted("ext4", journal=False)}),
        ("barriers", "problem", "nobarrier", "remount,barrier /mnt", {"mount": mounted("xfs", "nobarrier")}),
        ("lock-mount", "problem", "nolock", "without that option", {"mount": mounted("nfs", "nolock", local=False)}),
        ("one-device", "problem", "cur is not on the mount of new", "umount /spool/cur", {"folders": at("cur", device=3)}),
        ("one-device", "problem", "even of the same file system", "umount", {"folders": at("tmp", mount=3)}),
        ("one-device", "problem", ".spooltop is not", "umount", {"folders": at(".spooltop", mount=3)}),
        ("tried", "problem", "Permission denied", "sudo -u user7", {
            "trials": None, "untried": "Permission denied", "folders": at("tmp", uid=7)
        }),
        ("rename", "warning", "not known whether fuse", "--write", {"trials": None, "mount": mounted("fuse")}),
        ("rename", "warning", "no renameat2", "update", {"trials": None, "renameat2": False}),
        ("rename", "warning", "moves are made by link", "nothing is lost", {"trials": tried(noreplace="unsupported")}),
        ("rename", "problem", "neither", "move the spool", {"trials": tried(noreplace="unsupported", link="unsupported")}),
        ("rename", "problem", "cannot be moved: x", "df -h", {"trials": tried(rename="x")}),
        ("write", "problem", "No space", "df -h /spool", {"trials": tried(write="No space", rename="No space", time="No space")}),
        ("sync", "problem", "cannot be synced: bad", "durable puts fail", {"trials": tried(sync_dir="bad")}),
        ("locks", "problem", "flock: twice", "claims may be handed out twice", {"trials": tried(locks_flock="twice")}),
        ("events", "warning", "no event", "scanned", {"trials": tried(events="no event")}),
        ("file-times", "warning", "ahead", "clock of the server", {"trials": tried(time="9s ahead")}),
        ("exports", "warning", "/srv by NFS (/etc/exports)", "this machine alone", {
            "shares": (Share("NFS", "/srv", "/etc/exports"),)
        }),
        ("kernel", "warning", "before Linux 5.8", "update", {"kernel": "4.19.0"}),
        ("kernel", "warning", "without OFD locks", "3.15", {"ofd_locks": False}),
        ("inotify", "warning", "no inotify", "", {"inotify_there": False}),
        ("inotify", "warning", "not visible", "mount /proc", {"inotify": InotifyUse()}),
        ("inotify-instances", "problem", "127 of 128", "max_user_instances=1024", {"inotify": InotifyUse(8192, 128, 9, 127)}),
        ("inotify-instances", "warning", "120 of 128", "sysctl -w", {"inotify": InotifyUse(8192, 128, 9, 120)}),
        ("inotify-watches", "problem", "8,190 of 8,192", "max_user_watches=32768", {"inotify": InotifyUse(8192, 128, 8190, 1)}),
        ("clock", "warning", "time service", "timedatectl", {"clock": ClockState(False, 16.0)}),
        ("processes", "warning", "hidepid=2", "root", {"proc_options": frozenset({"hidepid=2"})}),
        ("processes", "warning", "in a container", "pid namespace", {"all_pids": False}),
        ("processes", "problem", "id of this boot", "this-machine", {"boot_id": False}),
        ("boxes", "problem", "cur missing", "spooltop init /spool", {
            "folders": {**at("."), "cur": FolderState("cur", missing=True)}
        }),
        ("boxes", "problem", "Permission denied (owner user7, mode 0700)", "sudo -u user7", {
            "folders": at("cur", uid=7, mode=0o700, error="Permission denied")
        }),
        ("owners", "warning", "new user8:group6", "chown user5:group6 /spool/tmp", {"folders": at("new", uid=8)}),
        ("modes", "warning", "different modes", "chmod 2770", {"folders": at("tmp", mode=0o2700)}),
        ("modes", "warning", "everybody", "chgrp", {"folders": {name: folder(name, 0o2777) for name in NAMES}}),
        ("modes", "warning", "sticky", "chmod -t", {"folders": {name: folder(name, 0o3770) for name in NAMES}}),
        ("modes", "warning", "setgid", "chmod g+s", {"folders": {name: folder(name, 0o770) for name in NAMES}}),
        ("format", "problem", "format is 3", "update spooltop", {"format": 3}),
        ("machines", "warning", "worked here: beta", "requeue /spool --verdict unknown", {
            "presence": PresenceFiles(1, 0, 1, ("beta",))
        }),
        ("leftovers", "warning", "1 directories of a doctor", "--write removes", {"leftovers": Leftovers((".x",))}),
        ("leftovers", "warning", "take 1.0GB", "ls -lhS '/a b; true'/.spooltop", {
            "path": "/a b; true", "leftovers": Leftovers((), 10**9)
        }),
        ("leftovers", "warning", "killed demos: /tmp/d", "spooltop demo", {"demos": ("/tmp/d",)}),
        ("leftovers", "warning", "5 files in tmp", "--verdict abandoned", {"counts": VerdictCounts(abandoned=5)}),
        ("leftovers", "warning", "4 messages in the trash", "--expired", {
            "boxes": {Box.TRASH: BoxState(Box.TRASH, 9, expired=4)}
        }),
        ("you", "warning", "cannot requeue: closed", "ls -la", {
            "capabilities": Capabilities({Action.REQUEUE: "closed"})
        }),
        ("writable", "problem", "read-only", "remount,rw /", {"disk": Disk("xfs", 1, 1, readonly=True)}),
        ("writable", "warning", "from here", "", {"disk": Disk("ext4", 10**9, 10**10, readonly=True, readonly_here=True)}),
        ("space", "warning", "not known", "df -h", {"disk": Disk("xfs")}),
    ],
)  # fmt: skip
def test_each_finding_has_its_remedy(check: str, health: str, words: str, remedy: str, changes: dict[str, Any]) -> None:
    one = found(check, seen(**changes))
    assert (one.health, words in one.text, remedy in one.remedy) == (health, True, True), one
    assert exit_code([one]) == {"warning": 1, "problem": 2}[health]


def test_a_full_disk_is_said_once() -> None:
    full = seen(trials=dict.fromkeys(TRIED, Trial("No space left on device")))
    assert [one.check for one in diagnose(full) if one.health is Health.PROBLEM] == ["write"]


@pytest.mark.parametrize(
    ("lost", "health", "words"),
    [(0, "ok", "did not fill"), (-5, "ok", "did not fill"), (10**5, "ok", "full in 11d"), (10**6, "ok", "full in 27h"),
     (2 * 10**6, "warning", "full in 13h"), (5 * 10**7, "problem", "full in 33m")],
)  # fmt: skip
def test_room_and_for_how_long(lost: int, health: str, words: str) -> None:
    last = seen().snapshot
    before = replace(last.observation, taken_at=990.0, disk=Disk("xfs", 10**10 + lost, 10**11, 10**6, 10**7))
    one = found("space", seen(first=replace(last, observation=before)))
    assert one.health == health and words in one.text and bool(one.remedy) == (health != "ok")
    assert "over 10s" in one.text
    assert "not measured how fast it fills: --watch 10s" in found("space", seen()).text


def test_what_every_look_reports_counts() -> None:
    full = Problem("disk-full", Severity.CRITICAL, "disk full for x")
    inodes = Problem("disk-full", Severity.WARNING, "9 inodes free")
    assert (found("space", seen(full)).health, found("inodes", seen(full)).health) == ("problem", "ok")
    assert (found("space", seen(inodes)).health, found("inodes", seen(inodes)).health) == ("ok", "warning")
    ahead = Problem("clock-skew", Severity.NOTE, "3 messages are dated in the future")
    assert found("clock", seen(ahead)).text == ahead.text
    blind = Problem("blind", Severity.CRITICAL, "new: permission denied")
    assert found("boxes", seen(blind)).health == "problem"


def test_no_name_reaches_a_terminal_unescaped() -> None:
    evil = "/sp\x1b]0;x\x07"
    folders = {name: replace(folder(name, 0o777, uid=hash(name) % 99), owner=evil, group=evil) for name in NAMES}
    examined = seen(
        path=evil, folders=folders, mount=MountState("tmpfs", evil, evil), shares=(Share("NFS", evil, evil),),
        presence=PresenceFiles(0, 3, 0, (evil,)), demos=(evil,), leftovers=Leftovers((evil,), 10**10),
    )  # fmt: skip
    for one in diagnose(examined):
        assert one.text.isprintable() and one.remedy.isprintable(), one


@pytest.mark.parametrize(("free", "total"), [(0, 0), (None, None)])
def test_a_file_system_without_a_table_of_inodes_never_runs_out_of_them(free: int | None, total: int | None) -> None:
    inodes = found("inodes", seen(disk=Disk("btrfs", 10**10, 10**11, free, total)))
    assert (inodes.health, inodes.text) == ("ok", "btrfs has no fixed number of inodes")


@pytest.mark.parametrize(("counted", "exclusive"), [(60, True), (59, False)])
def test_a_lock_that_does_not_exclude_is_found(
    tmp_path: Path, counted: int, exclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_all(jobs: Sequence[Job], seconds: float, tick: object) -> list[Answer]:
        (tmp_path / "counter").write_bytes(counted.to_bytes(8, "little"))
        return [Answer(1.0, Counter({1000: 30}))] * 2

    monkeypatch.setattr(bench, "run_all", run_all)
    (measured,) = bench._figures(BenchRun("locks", "x", 4), str(tmp_path), 1.0, print)
    assert (measured.exclusive, measured.operations, measured.per_second) == (exclusive, 60, 60.0)


def test_a_worker_without_its_parent_ends() -> None:
    code = f"from spooltop.cli.commands.bench import work; work(None, {os.getppid()}, None, 0, 0)"
    subprocess.run([sys.executable, "-c", code], cwd=Path(bench.__file__).parents[2], check=True, timeout=60)


def test_too_little_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_room(str(tmp_path))
    room = list(os.statvfs(tmp_path))
    full = os.statvfs_result([*room[:4], 10, *room[5:]])
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    with pytest.raises(Refused, match=re.escape("too little room; it needs 100 MB and 8,000 inodes free")):
        check_room(str(tmp_path))
