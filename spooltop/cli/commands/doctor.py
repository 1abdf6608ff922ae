"""``doctor``: examines the host, the spool, the storage below it, and advises. Each check is on a line, with its remedy."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial

from spooltop.backends.access import quoted
from spooltop.control import Control
from spooltop.model import Disk, FolderState, MountState, PlaceFacts, Problem, Refused, Severity, Snapshot, Trial, UsageError
from spooltop.model.target import has_scheme
from spooltop.model.vocabulary import DAY, HOUR, Action, Frozen, count, duration, escape, parse_age, percent, printable, size

from ..context import Arguments, Terminal, interrupted_by_signals, while_waiting

# Result of one check of ``spooltop doctor``.


class Health(StrEnum):
    """Result in a word. The order is that of the exit codes 0, 1, 2."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Diagnosis(Frozen):
    """``text`` is what was found, ``remedy`` what to do about it, or to type; empty if nothing needs to be done. Both contain
    escaped names only."""

    check: str
    text: str
    remedy: str = ""
    health: Health = Health.OK


class Examined(Frozen):
    """Everything that the checks look at: the facts of the place, the last look at the target, the ``first`` one, the same where
    nothing is watched, and the directories that killed demos left."""

    place: PlaceFacts
    snapshot: Snapshot
    first: Snapshot
    demos: tuple[str, ...] = ()


ok = Diagnosis
warning = partial(Diagnosis, health=Health.WARNING)
problem = partial(Diagnosis, health=Health.PROBLEM)


def worst_of(problems: Iterable[Problem], *codes: str) -> tuple[Health, str]:
    """Returns the health that the problems with these codes mean, and their texts; ``OK`` without any."""
    found = [one for one in problems if one.code in codes]
    if not found:
        return Health.OK, ""
    critical = any(one.severity is Severity.CRITICAL for one in found)
    return Health.PROBLEM if critical else Health.WARNING, "; ".join(one.text for one in found)


# Checks of the machine: kernel, limits of inotify, the clock, and whether processes are visible.

_INSTANCES, _WATCHES = 3, 8
"""Needs of one dashboard. A consumer that waits needs one of each."""
_HIDES = ("hidepid=1", "hidepid=2", "hidepid=4", "hidepid=noaccess", "hidepid=invisible", "hidepid=ptraceable")


def _kernel(place: PlaceFacts) -> Diagnosis:
    which = f"kernel {place.kernel}, Python {'.'.join(map(str, sys.version_info[:3]))}"
    missing = [name for name, there in (("OFD locks", place.ofd_locks), ("renameat2", place.renameat2)) if not there]
    if missing:
        text = f"{which}: without {' and '.join(missing)}, for which slower ways are used"
        return warning("kernel", text, "Linux 3.15 and glibc 2.28 have them")
    number = re.match(r"([0-9]+)\.([0-9]+)", place.kernel)
    if number is not None and (int(number[1]), int(number[2])) < (5, 8):
        return warning("kernel", f"{which}: before Linux 5.8 the sync of many puts reports no write error", "update the kernel")
    return ok("kernel", f"{which}: renameat2 and OFD locks are there")


def _inotify(place: PlaceFacts) -> Iterator[Diagnosis]:
    use = place.inotify
    if not place.inotify_there:
        yield warning("inotify", "this system has no inotify: changes are found by scanning", "")
        return
    if use.instances_limit is None or use.watches_limit is None:
        yield warning("inotify", "its limits are not visible", "mount /proc")
        return
    for name, used, limit, need in (
        ("instances", use.instances, use.instances_limit, _INSTANCES), ("watches", use.watches, use.watches_limit, _WATCHES)
    ):  # fmt: skip
        text = f"{count(used)} of {count(limit)} {name} of {place.user} are used; a dashboard needs {need}, a waiting consumer 1"
        setting = f"fs.inotify.max_user_{name}"
        more = max(1024, 4 * limit)
        remedy = f"sysctl -w {setting}={more}; to keep it: echo '{setting} = {more}' > /etc/sysctl.d/60-inotify.conf"
        if limit - used < need:
            text += ": dashboards scan instead, and consumers ask ten times a second"
            yield problem(f"inotify-{name}", text, remedy)
        elif limit - used < 4 * need:
            yield warning(f"inotify-{name}", text, remedy)
        else:
            yield ok(f"inotify-{name}", text)


def _clock(seen: Examined) -> Diagnosis:
    clock = seen.place.clock
    health, words = worst_of(seen.snapshot.problems, "clock-skew")
    remedy = "synchronise it: timedatectl set-ntp true, or install chrony; on all machines that put messages here"
    if health is not Health.OK:
        return warning("clock", words, remedy)
    if clock.synchronised is None:
        return ok("clock", "not known whether it is synchronised; no message is dated in the future")
    if not clock.synchronised:
        text = "the kernel does not know of a time service: ages may be wrong, and the order of messages too"
        return warning("clock", text, remedy)
    error = "" if clock.error is None else f", at most {duration(clock.error)} off"
    return ok("clock", f"synchronised{error}; no message is dated in the future")


def _processes(place: PlaceFacts) -> Diagnosis:
    if not place.boot_id:
        return problem(
            "processes", "/proc does not show the id of this boot: no claim can be judged dead after a restart",
            "mount the whole /proc (not subset=pid), or set claims_hosts = \"this-machine\" in /etc/spooltop.toml",
        )  # fmt: skip
    hidden = [one for one in _HIDES if one in place.proc_options]
    if hidden and place.uid != 0:
        where, remedy = f"/proc is mounted with {hidden[0]}: processes of others", "look as root, or as the user of the consumers"
    elif not place.all_pids:
        where = "this runs in a container: processes outside it"
        remedy = "look from the machine itself, or share its pid namespace: docker run --pid=host"
    else:
        return ok("processes", "the processes of this machine are visible")
    return warning("processes", f"{where} are not named here; verdicts rest on locks", remedy)


# Checks of the target itself: boxes, owners and rights, consumers of other machines, writers of cursors, leftovers.

_BOXES = ("tmp", "new", "cur")
_JOURNAL = 256 << 20
"""Bytes from which the journal is worth a word."""


def _boxes(seen: Examined) -> Diagnosis:
    place = seen.place
    missing = [name for name in _BOXES if place.folders[name].missing]
    path = quoted(place.path)
    if missing:
        return problem("boxes", f"{' and '.join(missing)} missing: puts or claims fail", f"spooltop init {path}")
    closed = [place.folders[name] for name in _BOXES if place.folders[name].error]
    if closed:
        first = closed[0]
        return problem(
            "boxes", f"{first.name}: {escape(first.error)} (owner {escape(first.owner)}, mode {stat.S_IMODE(first.mode):04o})",
            f"sudo -u {escape(first.owner)} spooltop doctor {path}",
        )  # fmt: skip
    health, words = worst_of(seen.snapshot.problems, "blind")
    if health is not Health.OK:
        return Diagnosis("boxes", words, f"spooltop status {path}", health)
    return ok("boxes", "tmp, new and cur are there and can be listed")


def _owners(place: PlaceFacts) -> Diagnosis:
    folders = [place.folders[name] for name in (*_BOXES, ".spooltop") if _known(place.folders[name])]
    owners = {one.name: f"{escape(one.owner)}:{escape(one.group)}" for one in folders}
    if len({(one.uid, one.gid) for one in folders}) <= 1:
        return ok("owners", f"all boxes belong to {next(iter(owners.values()), '?')}")
    named = ", ".join(f"{name} {owner}" for name, owner in owners.items())
    path = quoted(place.path)
    boxes = " ".join(f"{path}/{name}" for name in owners)
    return warning(
        "owners", f"the boxes belong to different owners or groups: {named}; what one may move the other may not",
        f"chown {owners.get('cur', owners[folders[0].name])} {boxes}",
    )  # fmt: skip


def _known(folder: FolderState) -> bool:
    return not folder.missing and folder.uid >= 0


def _modes(place: PlaceFacts) -> list[Diagnosis]:
    modes = {name: stat.S_IMODE(place.folders[name].mode) for name in _BOXES if _known(place.folders[name])}
    path = quoted(place.path)
    paths = " ".join(f"{path}/{name}" for name in modes)
    shown = ", ".join(f"{name} {mode:04o}" for name, mode in modes.items())
    open_to_all = [name for name, mode in modes.items() if mode & stat.S_IWOTH]
    safe = "" if all(modes[name] & stat.S_ISVTX for name in open_to_all) else " and remove"
    rows = (
        (
            len({mode & 0o777 for mode in modes.values()}) > 1, f"the boxes have different modes: {shown}",
            f"chmod {modes.get('cur', 0o770) & 0o2777:04o} {paths}",
        ),
        (
            open_to_all, f"{', '.join(open_to_all)} may be written by everybody: any user may put{safe} messages",
            f"a group for those who work here: chgrp GROUP {paths}; chmod 2770 {paths}",
        ),
        (
            any(mode & stat.S_ISVTX for name, mode in modes.items() if name != "tmp"),
            f"new or cur is sticky ({shown}): only the owner of a message moves it, so that no other user can claim it",
            f"chmod -t {path}/new {path}/cur",
        ),
        (
            any(mode & stat.S_IWGRP and not mode & stat.S_ISGID for mode in modes.values()),
            f"the boxes are shared by a group without setgid ({shown}): files of others get their own group",
            f"chmod g+s {paths}",
        ),
    )  # fmt: skip
    found = [warning("modes", text, remedy) for wrong, text, remedy in rows if wrong]
    return found or [ok("modes", f"the modes of the boxes agree: {shown}")]


def _others(place: PlaceFacts) -> Diagnosis:
    """Says who besides this user may work here, as far as owners and groups tell."""
    cur = place.folders["cur"]
    if not _known(cur):
        return ok("who", "not known who may work here: cur is not there")
    who = ["root", *([escape(cur.owner)] if cur.uid else [])]
    if cur.mode & stat.S_IWGRP and cur.mode & stat.S_IXGRP:
        members = place.group_members.get(cur.group, ())
        named = f": {', '.join(map(escape, members))}" if members else ""
        who.append(f"group {escape(cur.group)}{named}")
    if cur.mode & stat.S_IWOTH and cur.mode & stat.S_IXOTH:
        who.append("everybody")
    return ok("who", f"may claim and operate: {', '.join(who)}; access lists (getfacl) are not read")


def _you(seen: Examined) -> Diagnosis:
    place, capabilities = seen.place, seen.snapshot.observation.capabilities
    words, user = seen.snapshot.observation.who.words, escape(seen.snapshot.observation.who.user)
    if place.layout == "mail":
        return ok("you", f"you are {user}; a mail folder is never changed")
    if place.layout != "spool":
        return ok("you", f"you are {user}: {escape(words)}" if words else f"you are {user}")
    actions = (Action.REQUEUE, Action.PURGE, Action.HOLD, Action.INJECT)
    denied = {action: why for action in actions if (why := capabilities.why_not(action)) is not None}
    if not denied:
        return ok("you", f"you are {user}, and may do everything here")
    cur, path = place.folders["cur"], quoted(place.path)
    if any(one.readonly for one in seen.snapshot.observation.capacities):
        remedy = "as for writable"
    else:
        remedy = f"sudo -u {escape(cur.owner)} spooltop {path}" if _known(cur) and cur.uid != place.uid else f"ls -la {path}"
    return warning("you", f"you are {user}, and cannot {', '.join(denied)}: {next(iter(denied.values()))}", remedy)


def _format(place: PlaceFacts) -> Diagnosis:
    if place.format is None:
        own = place.folders[".spooltop"]
        text = "no .spooltop yet: the first consumer or operation makes it" if own.missing else "unknown: no number"
        return ok("format", text)
    if place.format > place.format_known:
        text = f"its format is {place.format}, this version knows up to {place.format_known}: it only looks"
        return problem("format", text, "update spooltop: pip install -U spooltop")
    return ok("format", f"format {place.format}, the newest that this version knows")


def _machines(place: PlaceFacts) -> Diagnosis:
    presence = place.presence
    if presence.other_hosts:
        hosts = ", ".join(map(escape, presence.other_hosts[:5])) + (" …" if len(presence.other_hosts) > 5 else "")
        return warning(
            "machines", f"consumers of other machines or containers worked here: {hosts}; whether they run is not visible here",
            f"look there too; after one is gone for good: spooltop requeue {quoted(place.path)} --verdict unknown",
        )  # fmt: skip
    if not presence.complete:
        return ok("machines", "not all presence files could be read, so that other machines may work here")
    return ok("machines", f"{count(presence.held)} running consumers, all of this machine")


def _cursors(seen: Examined) -> Iterator[Diagnosis]:
    snapshot = seen.snapshot
    if not snapshot.cursors:
        return
    path = quoted(seen.place.path)
    health, words = worst_of(snapshot.problems, "unsafe-writer", "cursor-reverted", "cursor-unreadable")
    if health is not Health.OK:
        remedy = "let each poller store its own section with CursorFile.advance, or under .cursors.lock"
        yield Diagnosis("cursor-writers", words, remedy, health)
    elif {"unsafe-writer", "cursor-reverted"} & set(snapshot.not_judged_codes):
        yield ok("cursor-writers", f"no unsafe writer in one look; spooltop doctor {path} --watch 2m sees more")
    else:
        yield ok("cursor-writers", "no writer overwrites what another has stored, as far as was watched")


def _leftovers(seen: Examined) -> list[Diagnosis]:
    """Says what killed processes left, and what to type, unless it goes by itself."""
    place, observation = seen.place, seen.snapshot.observation
    path = quoted(place.path)
    abandoned, stale, journal = observation.counts.abandoned, place.presence.stale, place.leftovers.journal_bytes or 0
    trials, expired = len(place.leftovers.trials), sum(state.expired or 0 for state in observation.boxes.values())
    removed = "the next consumer removes them"
    of_spool = (
        (
            abandoned, f"{count(abandoned)} files in tmp whose writers are gone",
            f"spooltop purge {path} --box tmp --verdict abandoned",
        ),
        (stale, f"{count(stale)} presence files of consumers that have exited and hold no claim: {removed}", ""),
        (journal > _JOURNAL, f"the files in .spooltop take {size(journal)}", f"see which: ls -lhS {path}/.spooltop"),
    )  # fmt: skip
    rows = (
        *(of_spool if place.layout == "spool" else ()),
        (
            trials, f"{count(trials)} directories of a doctor or bench that was killed",
            f"spooltop doctor {path} --write removes them",
        ),
        (seen.demos, f"directories of killed demos: {', '.join(map(escape, seen.demos))}", "spooltop demo removes them"),
        (expired, f"{count(expired)} messages in the trash have expired", f"spooltop purge {path} --expired"),
    )  # fmt: skip
    found = [
        Diagnosis("leftovers", text, remedy, Health.WARNING if remedy else Health.OK) for there, text, remedy in rows if there
    ]
    return found or [ok("leftovers", "nothing was left behind by a process that was killed")]


# Checks of the file system: its kind, one mount for all, moves, syncs, room, and who else may mount it.

_KINDS = (
    (
        ("tmpfs", "ramfs"), Health.WARNING, "is memory: messages are lost when the machine restarts, durable or not",
        "spooltop init a path on a disk, or accept it: put --no-durable is as safe here and faster",
    ),
    (
        ("overlay", "aufs"), Health.WARNING,
        "belongs to a container: it is removed with it, and other containers do not meet its locks",
        "keep the spool on a volume that is mounted into each container",
    ),
    (
        ("vfat", "exfat", "msdos"), Health.PROBLEM, "knows neither owners nor links, and not all names",
        "move the spool to ext4, xfs or btrfs",
    ),
    (
        ("ext2",), Health.WARNING, "has no journal: after a power failure it needs fsck, which may drop messages", "use ext4",
    ),
)  # fmt: skip
"""File systems that are not fit for messages, why, and what to do."""
_NOREPLACE = frozenset(("ext4", "xfs", "btrfs", "tmpfs", "f2fs", "overlay", "ext2", "ext3", "bcachefs"))
"""File systems that support RENAME_NOREPLACE on all kernels that Python 3.11 runs on."""
_OPTIONS = (
    (
        ("nobarrier", "barrier=0"), "barriers", "a sync may return before the disk has the data",
        "mount -o remount,barrier {}",
    ),
    (
        ("nolock", "local_lock=all", "local_lock=flock", "local_lock=posix"), "lock-mount",
        "locks hold on this machine alone, so two machines may hold one message",
        "mount it without that option, or let one machine alone work here",
    ),
)  # fmt: skip
"""Options of a mount that break a promise."""
_QUOTAS = frozenset(("quota", "usrquota", "grpquota", "uquota", "gquota", "usrjquota", "grpjquota"))


def _kind(place: PlaceFacts) -> Diagnosis:
    mount = place.mount
    name, kind = "file-system", mount.fs_type
    where = f"{kind} at {escape(mount.mountpoint)}" if mount.mountpoint else kind
    if kind == "?":
        text = "its kind is not known: /proc/self/mountinfo does not name its mount"
        return warning(name, text, f"tell by hand: df -T {quoted(place.path)}")
    for kinds, health, text, remedy in _KINDS:
        if kind in kinds:
            return Diagnosis(name, f"{where} {text}", remedy, health)
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
    for options, check, text, remedy in _OPTIONS:
        if bad := [one for one in options if one in mount.options]:
            yield problem(check, f"mounted with {bad[0]}: {text}", remedy.format(quoted(mount.mountpoint)))
    if quotas := sorted(_QUOTAS & {option.partition("=")[0] for option in mount.options}):
        yield ok("quotas", f"mounted with {', '.join(quotas)}; how much of a quota is left is not known here: quota -s")


def _one_mount(place: PlaceFacts) -> Diagnosis:
    folders = {name: one for name, one in place.folders.items() if not one.missing and not one.error}
    base = folders.get("new", place.folders["."])
    apart = [
        one for name, one in folders.items()
        if name != "." and (one.device != base.device or (None not in (one.mount, base.mount) and one.mount != base.mount))
    ]  # fmt: skip
    if not apart:
        boxes = [name for name in folders if name != "." and "/" not in name]
        named = f"{', '.join(boxes[:-1])} and {boxes[-1]}" if len(boxes) > 1 else "all boxes"
        return ok("one-device", f"{named} are on one mount, so that every move is a single rename")
    same = all(one.device == base.device for one in apart)
    how = "through another mount, even of the same file system," if same else "to another file system"
    first = quoted(f"{place.path}/{apart[0].name}")
    return problem(
        "one-device",
        f"{', '.join(one.name for one in apart)} is not on the mount of {base.name}: rename(2) {how} fails, and with it every "
        "put or claim",
        f"mount the whole spool instead of its boxes: stop its programs, umount {first}, and move the messages in",
    )  # fmt: skip


def _trials(place: PlaceFacts) -> Iterator[Diagnosis]:
    if place.trials is None:
        yield from _untried(place)
        return
    trials, write = place.trials, place.trials["write"]
    if not write.worked:
        yield problem("write", f"a file in tmp cannot be written and synced: {write.error}", _writable(place))
        trials = {name: one for name, one in trials.items() if one.error != write.error}  # a full disk is said once
    yield from _moves(place, trials)
    if "sync-dir" in trials:
        sync = trials["sync-dir"]
        if not sync.worked:
            text = f"tried: a directory cannot be synced: {sync.error}"
            yield problem("sync", text, "durable puts fail here: use another file system")
        elif write.worked:
            took = f"a file of 1 kB took {_ms(write.seconds)}, a directory {_ms(sync.seconds)}"
            yield ok("sync", f"tried: files and directories can be synced; {took}")
        else:
            yield ok("sync", "tried: directories can be synced")
    locks = {name.removeprefix("locks-"): one.error for name, one in trials.items() if name.startswith("locks")}
    if failed := [f"{name}: {error}" for name, error in locks.items() if error]:
        text = f"tried: locks do not work between two processes: {'; '.join(failed)}"
        yield problem("locks", text, "claims may be handed out twice: move the spool")
    elif locks:
        kinds = "flock and OFD locks" if place.ofd_locks else "flock"
        only = "" if place.mount.local else "; between machines this cannot be tried from here"
        yield ok("locks", f"tried: {kinds} exclude another process and end with it{only}")
    events, times = trials.get("events", Trial()).error, trials.get("time", Trial()).error
    if events and place.mount.local:
        yield warning("events", f"tried: {events}", "the boxes are scanned instead, which takes a little longer")
    if times:
        yield warning("file-times", f"tried: {times}", "synchronise the clock of the server with that of this machine")


def _untried(place: PlaceFacts) -> Iterator[Diagnosis]:
    kind = place.mount.fs_type
    try_it = f"spooltop doctor {quoted(place.path)} --write tries it, in a hidden directory in tmp"
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


def _moves(place: PlaceFacts, trials: Mapping[str, Trial]) -> Iterator[Diagnosis]:
    if not {"rename", "noreplace", "link"} <= trials.keys():
        return
    move, noreplace, link = trials["rename"], trials["noreplace"], trials["link"]
    if not move.worked:
        yield problem("rename", f"a file cannot be moved: {move.error}", _writable(place))
    elif noreplace.worked:
        yield ok("rename", "tried: moves work, and RENAME_NOREPLACE refuses to replace a file")
    elif link.worked:
        text = f"tried: RENAME_NOREPLACE is {noreplace.error}; moves are made by link and unlink, with more syncs"
        yield warning("rename", text, "nothing is lost by it; for speed use ext4, xfs or btrfs")
    else:
        text = f"tried: neither RENAME_NOREPLACE ({noreplace.error}) nor link(2) ({link.error}) works, so no put does"
        yield problem("rename", text, "move the spool to ext4, xfs or btrfs")
    if link.worked:
        yield ok("link", "tried: hard links work and replace nothing")
    elif noreplace.worked:
        yield ok("link", f"tried: hard links are {link.error}; they are not needed, as RENAME_NOREPLACE works")


def _writable(place: PlaceFacts) -> str:
    tmp = place.folders.get("tmp")
    if tmp is not None and tmp.uid not in (place.uid, -1) and place.uid != 0:
        return f"sudo -u {escape(tmp.owner)} spooltop doctor {quoted(place.path)} --write"
    return f"free space or rights: df -h {quoted(place.path)}; ls -ld {quoted(place.path)}/*"


def _ms(seconds: float | None) -> str:
    return "—" if seconds is None else f"{seconds * 1000:.1f} ms" if seconds >= 0.0001 else "under 0.1 ms"


def _room(seen: Examined) -> Iterator[Diagnosis]:
    before, disk = (look.observation.disk or Disk() for look in (seen.first, seen.snapshot))
    path, mountpoint = quoted(seen.place.path), quoted(seen.place.mount.mountpoint)
    if disk.readonly_here:
        yield warning(
            "writable", "mounted read-only here, not elsewhere: from here nothing can be put, claimed or acked",
            "let only those who look work here, or mount it read-write",
        )  # fmt: skip
    elif disk.readonly:
        remedy = f"mount -o remount,rw {mountpoint}"
        yield problem("writable", "the file system is mounted read-only: nothing can be put, claimed or acked", remedy)
    if disk.bytes_free is None:
        yield warning("space", "free space is not known", f"df -h {path}")
        return
    free = f"{size(disk.bytes_free)} free of {size(disk.bytes_total)} ({percent(disk.bytes_free, disk.bytes_total)})"
    remedy = f"free some: spooltop purge {path} --expired; spooltop purge {path} --box trash"
    yield _left(seen, "space", free, disk.bytes_free, before.bytes_free, size, remedy)
    if disk.inodes_free is None or not disk.inodes_total:
        yield ok("inodes", f"{disk.fs_type} has no fixed number of inodes")
        return
    free = f"{count(disk.inodes_free)} inodes free of {count(disk.inodes_total)} ({percent(disk.inodes_free, disk.inodes_total)})"
    remedy = f"find where the files are: du --inodes -x {mountpoint} | sort -n | tail"
    yield _left(seen, "inodes", free, disk.inodes_free, before.inodes_free, count, remedy)


def _left(
    seen: Examined, check: str, free: str, left: int, before: int | None, shown: Callable[[int], str], remedy: str
) -> Diagnosis:
    """Says how much is left of what was there ``before``, and for how long at this flow. The problems that every look reports
    count too."""
    full = [one for one in seen.snapshot.problems if ("inodes" in one.text) == (check == "inodes")]
    health, _ = worst_of(full, "disk-full")
    words = "not measured how fast it fills: --watch 10s does"
    watched = seen.snapshot.taken_at - seen.first.taken_at
    if watched and before is not None:
        over = f"over {duration(watched)}"
        words = f"it did not fill {over}"
        if (used := before - left) > 0:
            seconds = left * watched / used
            speed = shown(max(1, round(used / watched)))
            words = f"it filled by {speed}/s {over}: at this flow it is full in {duration(seconds)}"
            if seconds < HOUR:
                health = Health.PROBLEM
            elif seconds < DAY and health is Health.OK:
                health = Health.WARNING
    return Diagnosis(check, f"{free}; {words}", "" if health is Health.OK else remedy, health)


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


# ``doctor``: can this place keep the promises? Looks, judges, and gives for each finding what to do. Without ``write`` it
# changes nothing. What cannot be known from here, it says: nothing is ``ok`` that was only assumed, unless its text says so.


def examined(control: Control, *, write: bool, watch: float = 0.0, demos: Sequence[str] = ()) -> Examined:
    """Looks at the target, for ``watch`` seconds if that is not 0, and collects the facts. With ``write`` it tries what can only
    be tried. Raises ``Refused`` for ``write`` on a target that is read-only."""
    from spooltop.backends.directory.facts import collect

    if has_scheme(control.target):
        raise Refused(
            "doctor: examines the host and the file system of a directory",
            "spooltop check looks at what holds for every queue",
            path=control.target,
        )
    path = os.path.abspath(control.target if os.path.isdir(control.target) else os.path.dirname(control.target) or ".")
    first = last = control.look()
    if write and (why := control.why_read_only):
        raise Refused(f"doctor --write: {why}", path=control.target)
    if watch:
        last = control.watch(watch)
    return Examined(collect(path, control.layout, write=write), last, first, tuple(demos))


def diagnose(seen: Examined) -> list[Diagnosis]:
    """Returns the result of each check, in their order."""
    place = seen.place
    is_spool, has_boxes = place.layout == "spool", place.layout in ("spool", "mail")
    return [
        _kind(place), *_options(place.mount), *([_one_mount(place)] if has_boxes else []), *(_trials(place) if is_spool else ()),
        *_room(seen), _shares(place),
        _kernel(place), *_inotify(place), _clock(seen), _processes(place),
        *([_boxes(seen), _owners(place), *_modes(place), _others(place)] if has_boxes else []), _you(seen),
        *([_format(place), _machines(place)] if is_spool else []), *_cursors(seen), *_leftovers(seen),
    ]  # fmt: skip


def exit_code(found: Iterable[Diagnosis]) -> int:
    """0 if all is well, 1 with warnings, 2 with problems."""
    return max((list(Health).index(one.health) for one in found), default=0)


# The command.

_LONGEST = 86400.0
_MARKS = {"problem": ("✗", 31), "warning": ("!", 33), "ok": ("✓", 32)}
"""Sign and colour of each word, the worst first."""
_WORD, _CHECK = 7, 18
_REMEDY = "    "


def doctor(args: Arguments) -> int:
    """Prints the result of each check; the exit code is that of the worst."""
    from ..demo.scenario import left_behind

    terminal = args.terminal
    watch = 0.0 if args.watch is None else parse_age(args.watch)
    if args.watch is not None and not 0 < watch <= _LONGEST:
        raise UsageError(f"--watch {args.watch!r} is not between 1s and 1d", "as in --watch 10s")
    with args.control(watch=bool(watch), owners=False) as control, interrupted_by_signals():
        with while_waiting(terminal, "doctor", control.current_step):
            found = diagnose(examined(control, write=args.write, watch=watch, demos=left_behind()))
    terminal.show(map(_json, found), _drawn(found, terminal) if terminal.out_is_terminal else map(_plain, found))
    return exit_code(found)


def _json(one: Diagnosis) -> dict[str, str | None]:
    return {"check": one.check, "status": one.health, "text": one.text, "remedy": one.remedy or None}


def _plain(one: Diagnosis) -> str:
    remedy = f"; remedy: {one.remedy}" if one.remedy else ""
    return f"{one.health} {one.check}: {printable(one.text + remedy)}"


def _drawn(found: Sequence[Diagnosis], terminal: Terminal) -> Iterator[str]:
    """Lines for a terminal: a sign, the word, the check, and its text, wrapped beside them. The last line counts."""
    import textwrap  # only for a terminal

    margin = " " * (2 + _WORD + 2 + _CHECK + 1)
    width = max(terminal.width(terminal.stdout), len(margin) + 20)
    for one in found:
        word = str(one.health)
        sign, colour = _MARKS[word]
        head = f"{sign} {word:<{_WORD}}  {one.check:<{_CHECK}} "
        text = textwrap.wrap(printable(one.text), width - len(margin), break_long_words=False, break_on_hyphens=False)
        yield (f"\x1b[{colour}m{head}\x1b[39m" if terminal.coloured else head) + text[0]
        yield from (margin + line for line in text[1:])
        if one.remedy:
            # A command is not wrapped: the terminal does that, and whoever copies it gets one line.
            yield f"{_REMEDY}→ {printable(one.remedy)}"
    counts = {word: sum(one.health == word for one in found) for word in _MARKS}
    yield ""
    yield ", ".join(f"{n} {word}{'s' if n != 1 and word != 'ok' else ''}" for word, n in counts.items() if n)
