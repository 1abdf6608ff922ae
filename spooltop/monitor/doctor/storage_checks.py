"""Checks of the file system: its kind, one mount for all, moves, syncs, room, and who else may mount it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from spooltop.backends.access import quoted
from spooltop.model.look.capacity import Disk
from spooltop.model.place import FolderState, MountState, PlaceFacts, Trial
from spooltop.model.text import escape
from spooltop.model.units import count, duration, percent, size
from spooltop.records import replace

from .diagnosis import Diagnosis, Examined, FillRate, Health, ok, problem, warning, worst_of

__all__ = ["storage_checks"]

_MEMORY = ("tmpfs", "ramfs")
_OF_A_CONTAINER = ("overlay", "aufs")
_WITHOUT_OWNERS = ("vfat", "exfat", "msdos")
_NOREPLACE = frozenset(("ext4", "xfs", "btrfs", "tmpfs", "f2fs", "overlay", "ext2", "ext3", "bcachefs"))
"""File systems that support RENAME_NOREPLACE on all kernels that Python 3.11 runs on."""
_NO_BARRIERS = ("nobarrier", "barrier=0")
_NO_LOCKS = ("nolock", "local_lock=all", "local_lock=flock", "local_lock=posix")
_QUOTAS = frozenset(("quota", "usrquota", "grpquota", "uquota", "gquota", "usrjquota", "grpjquota"))
_TRY = "spooltop doctor {} --write tries it, in a hidden directory in tmp"
HOUR, DAY = 3600.0, 86400.0


def storage_checks(seen: Examined) -> Iterator[Diagnosis]:
    place = seen.place
    yield _kind(place)
    yield from _options(place.mount)
    if place.layout in ("spool", "mail"):
        yield from _one_mount(place)
    if place.layout == "spool":
        yield from _trials(place)
    yield from _room(seen)
    yield _shares(place)


def _kind(place: PlaceFacts) -> Diagnosis:
    mount = place.mount
    name, kind = "file-system", mount.fs_type
    where = f"{kind} at {escape(mount.mountpoint)}" if mount.mountpoint else kind
    if kind == "?":
        text = "its kind is not known: /proc/self/mountinfo does not name its mount"
        return warning(name, text, f"tell by hand: df -T {quoted(place.path)}")
    if kind in _MEMORY:
        return warning(
            name, f"{where} is memory: messages are lost when the machine restarts, durable or not",
            "spooltop init a path on a disk, or accept it: put --no-durable is as safe here and faster",
        )  # fmt: skip
    if kind in _OF_A_CONTAINER:
        return warning(
            name, f"{where} belongs to a container: it is removed with it, and other containers do not meet its locks",
            "keep the spool on a volume that is mounted into each container",
        )  # fmt: skip
    if kind in _WITHOUT_OWNERS:
        return problem(name, f"{where} knows neither owners nor links, and not all names", "move the spool to ext4, xfs or btrfs")
    if kind == "ext2":
        return warning(name, f"{where} has no journal: after a power failure it needs fsck, which may drop messages", "use ext4")
    if not mount.local:
        return warning(
            name,
            f"{where} may be mounted by other machines: their changes send no event; whether their consumers run is unknown",
            "run doctor on each machine that works here; if this is the only one, set claims_hosts = \"this-machine\" in "
            "/etc/spooltop.toml",
        )  # fmt: skip
    return ok(name, f"{where}, which one machine mounts at a time" + ("" if kind != "btrfs" else "; a move costs a second sync"))


def _options(mount: MountState) -> Iterator[Diagnosis]:
    if not mount.journal:
        device = quoted(mount.source)
        how = "umount {0}, then: " if mount.mountpoint != "/" else "from a rescue system: "
        yield warning(
            "journal",
            "ext4 without a journal: the order of changes is lost when the power fails, and creating files gets slow after many "
            "were deleted (the engine spreads its drafts over .spooltop/stage for that)",
            f"{how.format(quoted(mount.mountpoint))}tune2fs -O has_journal {device} && fsck -f {device}",
        )  # fmt: skip
    if off := [one for one in _NO_BARRIERS if one in mount.options]:
        yield problem(
            "barriers", f"mounted with {off[0]}: a sync may return before the disk has the data",
            f"mount -o remount,barrier {quoted(mount.mountpoint)}",
        )  # fmt: skip
    if local := [one for one in _NO_LOCKS if one in mount.options]:
        yield problem(
            "lock-mount", f"mounted with {local[0]}: locks hold on this machine alone, so two machines may hold one message",
            "mount it without that option, or let one machine alone work here",
        )  # fmt: skip
    if quotas := sorted(_QUOTAS & {option.partition("=")[0] for option in mount.options}):
        yield ok("quotas", f"mounted with {', '.join(quotas)}; how much of a quota is left is not known here: quota -s")


def _one_mount(place: PlaceFacts) -> Iterator[Diagnosis]:
    folders = [one for one in place.folders.values() if not one.missing and not one.error]
    base = place.folders.get("new") or place.folders["."]
    if base.missing or base.error:
        base = place.folders["."]
    apart = [one for one in folders if _is_apart(one, base) and one.name != "."]
    if not apart:
        yield ok("one-device", f"{_listed(folders)} are on one mount, so that every move is a single rename")
        return
    names = ", ".join(one.name for one in apart)
    same = all(one.device == base.device for one in apart)
    how = "through another mount, even of the same file system," if same else "to another file system"
    first = quoted(f"{place.path}/{apart[0].name}")
    yield problem(
        "one-device", f"{names} is not on the mount of {base.name}: rename(2) {how} fails, and with it every put or claim",
        f"mount the whole spool instead of its boxes: stop its programs, umount {first}, and move the messages in",
    )  # fmt: skip


def _is_apart(one: FolderState, base: FolderState) -> bool:
    return one.device != base.device or (None not in (one.mount, base.mount) and one.mount != base.mount)


def _listed(folders: list[FolderState]) -> str:
    shown = [one.name for one in folders if one.name != "." and "/" not in one.name]
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "all boxes"


def _trials(place: PlaceFacts) -> Iterator[Diagnosis]:
    trials = place.trials
    if trials is None:
        kind = place.mount.fs_type
        try_it = _TRY.format(quoted(place.path))
        if place.untried and "ro" not in place.mount.options:
            yield problem("tried", f"nothing could be tried: {place.untried}", _writable(place))
        if not place.renameat2:
            text = "this C library has no renameat2(2): moves are made by link and unlink, which is slower"
            yield warning("rename", text, "update it")
        elif kind in _NOREPLACE:
            yield ok("rename", f"{kind} is known never to replace a file with RENAME_NOREPLACE; not tried: {try_it}")
        else:
            yield warning("rename", f"it is not known whether {kind} has RENAME_NOREPLACE, or else hard links", try_it)
        ask = "" if place.untried else ": --write tries it"
        yield ok("sync", f"not tried whether files and directories can be synced{ask}")
        yield ok("locks", f"not tried whether locks exclude other processes{ask}")
        return
    write = trials["write"]
    if not write.worked:
        yield problem("write", f"a file in tmp cannot be written and synced: {write.error}", _writable(place))
        trials = {name: one for name, one in trials.items() if one.error != write.error}  # a full disk is said once
        place = replace(place, trials=trials)
    yield from _moves(place, trials)
    if "sync-dir" in trials:
        yield _syncs(write, trials["sync-dir"])
    yield from _locks(place)
    if "events" in trials and not trials["events"].worked and place.mount.local:
        yield warning("events", f"tried: {trials['events'].error}", "the boxes are scanned instead, which takes a little longer")
    if "time" in trials and not trials["time"].worked:
        text = f"tried: {trials['time'].error}"
        yield warning("file-times", text, "synchronise the clock of the server with that of this machine")


def _moves(place: PlaceFacts, trials: Mapping[str, Trial]) -> Iterator[Diagnosis]:
    if not {"rename", "noreplace", "link"} <= trials.keys():
        return
    move, noreplace, link = trials["rename"], trials["noreplace"], trials["link"]
    if not move.worked:
        yield problem("rename", f"a file cannot be moved: {move.error}", _writable(place))
    elif noreplace.worked:
        yield ok("rename", "tried: moves work, and RENAME_NOREPLACE refuses to replace a file")
    elif link.worked:
        yield warning(
            "rename", f"tried: RENAME_NOREPLACE is {noreplace.error}; moves are made by link and unlink, with more syncs",
            "nothing is lost by it; for speed use ext4, xfs or btrfs",
        )  # fmt: skip
    else:
        yield problem(
            "rename", f"tried: neither RENAME_NOREPLACE ({noreplace.error}) nor link(2) ({link.error}) works, so no put does",
            "move the spool to ext4, xfs or btrfs",
        )  # fmt: skip
    if link.worked:
        yield ok("link", "tried: hard links work and replace nothing")
    elif noreplace.worked:
        yield ok("link", f"tried: hard links are {link.error}; they are not needed, as RENAME_NOREPLACE works")


def _syncs(write: Trial, sync: Trial) -> Diagnosis:
    if not sync.worked:
        text = f"tried: a directory cannot be synced: {sync.error}"
        return problem("sync", text, "durable puts fail here: use another file system")
    if not write.worked:
        return ok("sync", "tried: directories can be synced")
    took = f"a file of 1 kB took {_ms(write.seconds)}, a directory {_ms(sync.seconds)}"
    return ok("sync", f"tried: files and directories can be synced; {took}")


def _locks(place: PlaceFacts) -> Iterator[Diagnosis]:
    assert place.trials is not None
    tried = {name.removeprefix("locks-"): one for name, one in place.trials.items() if name.startswith("locks")}
    if not tried:
        return
    failed = [f"{name}: {one.error}" for name, one in tried.items() if one.error]
    if failed:
        text = f"tried: locks do not work between two processes: {'; '.join(failed)}"
        yield problem("locks", text, "claims may be handed out twice: move the spool")
        return
    kinds = "flock and OFD locks" if place.ofd_locks else "flock"
    only = "" if place.mount.local else "; between machines this cannot be tried from here"
    yield ok("locks", f"tried: {kinds} exclude another process and end with it{only}")


def _writable(place: PlaceFacts) -> str:
    tmp = place.folders.get("tmp")
    if tmp is not None and tmp.uid not in (place.uid, -1) and place.uid != 0:
        return f"sudo -u {escape(tmp.owner)} spooltop doctor {quoted(place.path)} --write"
    return f"free space or rights: df -h {quoted(place.path)}; ls -ld {quoted(place.path)}/*"


def _ms(seconds: float | None) -> str:
    return "—" if seconds is None else f"{seconds * 1000:.1f} ms" if seconds >= 0.0001 else "under 0.1 ms"


def _room(seen: Examined) -> Iterator[Diagnosis]:
    disk, filling = seen.snapshot.observation.disk or Disk(), seen.filling
    path = quoted(seen.place.path)
    if disk.readonly_here:
        yield warning(
            "writable", "mounted read-only here, not elsewhere: from here nothing can be put, claimed or acked",
            "let only those who look work here, or mount it read-write",
        )  # fmt: skip
    elif disk.readonly:
        remedy = f"mount -o remount,rw {quoted(seen.place.mount.mountpoint)}"
        yield problem("writable", "the file system is mounted read-only: nothing can be put, claimed or acked", remedy)
    if disk.bytes_free is None:
        yield warning("space", "free space is not known", f"df -h {path}")
        return
    free = f"{size(disk.bytes_free)} free of {size(disk.bytes_total)} ({percent(disk.bytes_free, disk.bytes_total)})"
    used = None if filling is None else filling.bytes
    yield _left(
        "space", free, disk.bytes_free, used, filling, size, _fullness(seen, inodes=False),
        f"free some: spooltop purge {path} --expired; spooltop purge {path} --box trash",
    )  # fmt: skip
    if disk.inodes_free is None or not disk.inodes_total:
        yield ok("inodes", f"{disk.fs_type} has no fixed number of inodes")
        return
    free = f"{count(disk.inodes_free)} inodes free of {count(disk.inodes_total)} ({percent(disk.inodes_free, disk.inodes_total)})"
    used = None if filling is None else filling.inodes
    yield _left(
        "inodes", free, disk.inodes_free, used, filling, count, _fullness(seen, inodes=True),
        f"find where the files are: du --inodes -x {quoted(seen.place.mount.mountpoint)} | sort -n | tail",
    )  # fmt: skip


def _fullness(seen: Examined, *, inodes: bool) -> Health:
    """The health of the room for bytes or inodes, by the problems that every look reports."""
    found = [one for one in seen.snapshot.problems if one.code == "disk-full" and ("inodes" in one.text) == inodes]
    return worst_of(found, "disk-full")[0]


def _left(
    check: str, free: str, left: int, used: int | None, filling: FillRate | None, shown: Callable[[int], str], health: Health,
    remedy: str,
) -> Diagnosis:
    """Says how much is left, and for how long at the flow that was measured."""
    words = "not measured how fast it fills: --watch 10s does"
    if filling is not None and used is not None:
        over = f"over {duration(filling.seconds)}"
        if used <= 0:
            words = f"it did not fill {over}"
        else:
            seconds = left * filling.seconds / used
            speed = shown(max(1, round(used / filling.seconds)))
            words = f"it filled by {speed}/s {over}: at this flow it is full in {duration(seconds)}"
            if seconds < HOUR:
                health = Health.PROBLEM
            elif seconds < DAY and health is Health.OK:
                health = Health.WARNING
    return Diagnosis(check, health, f"{free}; {words}", "" if health is Health.OK else remedy)


def _shares(place: PlaceFacts) -> Diagnosis:
    unread = f"; not readable: {', '.join(map(escape, place.shares_unread))}" if place.shares_unread else ""
    if place.shares:
        named = ", ".join(f"{escape(one.path)} by {one.service} ({escape(one.source)})" for one in place.shares)
        return warning(
            "exports", f"other machines may mount this: {named}{unread}",
            "work on it from this machine alone, or through the mount on all: locks of the two do not meet on every kernel",
        )  # fmt: skip
    if place.shares_unread:
        return ok("exports", f"no export is visible{unread}: as root more is")
    return ok("exports", "neither NFS nor Samba of this machine offers it to others, as far as their files say")
