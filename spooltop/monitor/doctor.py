"""Examinations of ``doctor``: the host, the spool, the storage below it, and what it advises."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from spooltop.backends.access import quoted
from spooltop.control import Control
from spooltop.errors import Refused
from spooltop.model.look.observation import Disk
from spooltop.model.look.snapshot import Problem, Severity, Snapshot
from spooltop.model.target import FolderState, MountState, PlaceFacts, Trial, has_scheme
from spooltop.model.text import escape
from spooltop.model.units import count, duration, percent, size
from spooltop.model.vocabulary import Action

# Result of one check of ``spooltop doctor``.


class Health(StrEnum):
    """Result in a word. The order is that of the exit codes 0, 1, 2."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Diagnosis(Struct, frozen=True):
    """``text`` is what was found, ``remedy`` what to do about it, or to type; empty if nothing needs to be done. Both contain
    escaped names only."""

    check: str
    health: Health
    text: str
    remedy: str = ""


class FillRate(Struct, frozen=True):
    """Bytes and inodes that the file system lost within ``seconds``; negative if it gained some."""

    seconds: float
    bytes: int | None = None
    inodes: int | None = None


class Examined(Struct, frozen=True):
    """Everything that the checks look at: the facts of the place, a look at the target, how fast the file system fills
    (None: not measured), and the directories that killed demos left."""

    place: PlaceFacts
    snapshot: Snapshot
    filling: FillRate | None = None
    demos: tuple[str, ...] = ()


def ok(check: str, text: str) -> Diagnosis:
    return Diagnosis(check, Health.OK, text)


def warning(check: str, text: str, remedy: str) -> Diagnosis:
    return Diagnosis(check, Health.WARNING, text, remedy)


def problem(check: str, text: str, remedy: str) -> Diagnosis:
    return Diagnosis(check, Health.PROBLEM, text, remedy)


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


def host_checks(seen: Examined) -> Iterator[Diagnosis]:
    yield _kernel(seen)
    yield from _inotify(seen)
    yield _clock(seen)
    yield _processes(seen)


def _kernel(seen: Examined) -> Diagnosis:
    place = seen.place
    python = ".".join(map(str, sys.version_info[:3]))
    which = f"kernel {place.kernel}, Python {python}"
    missing = [name for name, there in (("OFD locks", place.ofd_locks), ("renameat2", place.renameat2)) if not there]
    if missing:
        text = f"{which}: without {' and '.join(missing)}, for which slower ways are used"
        return warning("kernel", text, "Linux 3.15 and glibc 2.28 have them")
    if (number := _number(place.kernel)) is not None and number < (5, 8):
        return warning("kernel", f"{which}: before Linux 5.8 the sync of many puts reports no write error", "update the kernel")
    return ok("kernel", f"{which}: renameat2 and OFD locks are there")


def _number(release: str) -> tuple[int, int] | None:
    """Returns the version of a kernel.

    >>> _number("6.1.0-18-amd64"), _number("strange")
    ((6, 1), None)
    """
    major, _, rest = release.partition(".")
    minor = "".join(char if char.isdigit() else " " for char in rest).split(" ")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _inotify(seen: Examined) -> Iterator[Diagnosis]:
    place, use = seen.place, seen.place.inotify
    if not place.inotify_there:
        yield warning("inotify", "this system has no inotify: changes are found by scanning", "")
        return
    if use.instances_limit is None or use.watches_limit is None:
        yield warning("inotify", "its limits are not visible", "mount /proc")
        return
    for name, used, limit, need in (
        ("instances", use.instances, use.instances_limit, _INSTANCES), ("watches", use.watches, use.watches_limit, _WATCHES)
    ):  # fmt: skip
        free = limit - used
        text = f"{count(used)} of {count(limit)} {name} of {place.user} are used; a dashboard needs {need}, a waiting consumer 1"
        key = f"fs.inotify.max_user_{name}"
        more = max(1024, 4 * limit)
        remedy = f"sysctl -w {key}={more}; to keep it: echo '{key} = {more}' > /etc/sysctl.d/60-inotify.conf"
        check = f"inotify-{name}"
        if free < need:
            yield problem(check, f"{text}: dashboards scan instead, and consumers ask ten times a second", remedy)
        elif free < 4 * need:
            yield warning(check, text, remedy)
        else:
            yield ok(check, text)


def _clock(seen: Examined) -> Diagnosis:
    clock = seen.place.clock
    health, words = worst_of(seen.snapshot.problems, "clock-skew")
    remedy = "synchronise it: timedatectl set-ntp true, or install chrony; on all machines that put messages here"
    if health is not Health.OK:
        return Diagnosis("clock", Health.WARNING, words, remedy)
    if clock.synchronised is None:
        return ok("clock", "not known whether it is synchronised; no message is dated in the future")
    if not clock.synchronised:
        text = "the kernel does not know of a time service: ages may be wrong, and the order of messages too"
        return warning("clock", text, remedy)
    error = "" if clock.error is None else f", at most {duration(clock.error)} off"
    return ok("clock", f"synchronised{error}; no message is dated in the future")


def _processes(seen: Examined) -> Diagnosis:
    place = seen.place
    if not place.boot_id:
        return problem(
            "processes", "/proc does not show the id of this boot: no claim can be judged dead after a restart",
            "mount the whole /proc (not subset=pid), or set claims_hosts = \"this-machine\" in /etc/spooltop.toml",
        )  # fmt: skip
    hidden = [one for one in _HIDES if one in place.proc_options]
    if hidden and place.uid != 0:
        return warning(
            "processes", f"/proc is mounted with {hidden[0]}: processes of others are not named here; verdicts rest on locks",
            "look as root, or as the user of the consumers",
        )  # fmt: skip
    if not place.all_pids:
        return warning(
            "processes", "this runs in a container: processes outside it are not named here; verdicts rest on locks",
            "look from the machine itself, or share its pid namespace: docker run --pid=host",
        )  # fmt: skip
    return ok("processes", "the processes of this machine are visible")


# Checks of the target itself: boxes, owners and rights, consumers of other machines, writers of cursors, leftovers.

_BOXES = ("tmp", "new", "cur")
_JOURNAL = 256 << 20
"""Bytes from which the journal is worth a word."""


def spool_checks(seen: Examined) -> Iterator[Diagnosis]:
    place = seen.place
    if place.layout in ("spool", "mail"):
        yield _boxes(seen)
        yield _owners(place)
        yield from _modes(place)
        yield _others(place)
    yield _you(seen)
    if place.layout == "spool":
        yield from _format(place)
        yield _machines(place)
    yield from _cursors(seen)
    yield from _leftovers(seen)


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
        return Diagnosis("boxes", health, words, f"spooltop status {path}")
    return ok("boxes", "tmp, new and cur are there and can be listed")


def _owners(place: PlaceFacts) -> Diagnosis:
    folders = [place.folders[name] for name in (*_BOXES, ".spooltop") if _known(place.folders[name])]
    if len({(one.uid, one.gid) for one in folders}) <= 1:
        whose = f"{escape(folders[0].owner)}:{escape(folders[0].group)}" if folders else "?"
        return ok("owners", f"all boxes belong to {whose}")
    named = ", ".join(f"{one.name} {escape(one.owner)}:{escape(one.group)}" for one in folders)
    model = next((one for one in folders if one.name == "cur"), folders[0])
    path = quoted(place.path)
    boxes = " ".join(f"{path}/{one.name}" for one in folders)
    return warning(
        "owners", f"the boxes belong to different owners or groups: {named}; what one may move the other may not",
        f"chown {escape(model.owner)}:{escape(model.group)} {boxes}",
    )  # fmt: skip


def _known(folder: FolderState) -> bool:
    return not folder.missing and folder.uid >= 0


def _modes(place: PlaceFacts) -> Iterator[Diagnosis]:
    boxes = [place.folders[name] for name in _BOXES if _known(place.folders[name])]
    path = quoted(place.path)
    paths = " ".join(f"{path}/{one.name}" for one in boxes)
    modes = {one.name: stat.S_IMODE(one.mode) for one in boxes}
    shown = ", ".join(f"{name} {mode:04o}" for name, mode in modes.items())
    found = False
    if len({mode & 0o777 for mode in modes.values()}) > 1:
        found = True
        wanted = modes.get("cur", 0o770) & 0o2777
        yield warning("modes", f"the boxes have different modes: {shown}", f"chmod {wanted:04o} {paths}")
    open_to_all = [name for name, mode in modes.items() if mode & stat.S_IWOTH]
    if open_to_all:
        found = True
        safe = "" if all(modes[name] & stat.S_ISVTX for name in open_to_all) else " and remove"
        yield warning(
            "modes", f"{', '.join(open_to_all)} may be written by everybody: any user may put{safe} messages",
            f"a group for those who work here: chgrp GROUP {paths}; chmod 2770 {paths}",
        )  # fmt: skip
    if any(mode & stat.S_ISVTX for name, mode in modes.items() if name in ("new", "cur")):
        found = True
        yield warning(
            "modes", f"new or cur is sticky ({shown}): only the owner of a message moves it, so that no other user can claim it",
            f"chmod -t {path}/new {path}/cur",
        )  # fmt: skip
    shared = [name for name, mode in modes.items() if mode & stat.S_IWGRP]
    if shared and not all(modes[name] & stat.S_ISGID for name in shared):
        found = True
        yield warning(
            "modes", f"the boxes are shared by a group without setgid ({shown}): files of others get their own group",
            f"chmod g+s {paths}",
        )  # fmt: skip
    if not found:
        yield ok("modes", f"the modes of the boxes agree: {shown}")


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
    acl = "; access lists (getfacl) are not read"
    return ok("who", f"may claim and operate: {', '.join(who)}{acl}")


def _you(seen: Examined) -> Diagnosis:
    capabilities, who = seen.snapshot.observation.capabilities, seen.snapshot.observation.who
    mine = [
        action for action in (Action.REQUEUE, Action.PURGE, Action.HOLD, Action.INJECT)
        if (seen.place.layout == "spool" and capabilities.why_not(action) is not None)
    ]  # fmt: skip
    user = escape(who.user)
    if seen.place.layout == "mail":
        return ok("you", f"you are {user}; a mail folder is never changed")
    if seen.place.layout != "spool":
        return ok("you", f"you are {user}: {escape(who.words)}" if who.words else f"you are {user}")
    if not mine:
        return ok("you", f"you are {user}, and may do everything here")
    why = capabilities.why_not(mine[0]) or ""
    if any(one.readonly for one in seen.snapshot.observation.capacities):
        return warning("you", f"you are {user}, and cannot {', '.join(mine)}: {why}", "as for writable")
    return warning("you", f"you are {user}, and cannot {', '.join(mine)}: {why}", _as_owner(seen.place))


def _as_owner(place: PlaceFacts) -> str:
    cur = place.folders["cur"]
    path = quoted(place.path)
    return f"sudo -u {escape(cur.owner)} spooltop {path}" if _known(cur) and cur.uid != place.uid else f"ls -la {path}"


def _format(place: PlaceFacts) -> Iterator[Diagnosis]:
    if place.format is None:
        own = place.folders[".spooltop"]
        text = "no .spooltop yet: the first consumer or operation makes it" if own.missing else "unknown: no number"
        yield ok("format", text)
    elif place.format > place.format_known:
        yield problem(
            "format", f"its format is {place.format}, this version knows up to {place.format_known}: it only looks",
            "update spooltop: pip install -U spooltop",
        )  # fmt: skip
    else:
        yield ok("format", f"format {place.format}, the newest that this version knows")


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
        yield Diagnosis("cursor-writers", health, words, remedy)
    elif {"unsafe-writer", "cursor-reverted"} & set(snapshot.not_judged_codes):
        yield ok("cursor-writers", f"no unsafe writer in one look; spooltop doctor {path} --watch 2m sees more")
    else:
        yield ok("cursor-writers", "no writer overwrites what another has stored, as far as was watched")


def _leftovers(seen: Examined) -> Iterator[Diagnosis]:
    found = list(_left_behind(seen))
    yield from found or [ok("leftovers", "nothing was left behind by a process that was killed")]


def _left_behind(seen: Examined) -> Iterator[Diagnosis]:
    place, observation = seen.place, seen.snapshot.observation
    path = quoted(place.path)

    def left(words: str, remedy: str) -> Diagnosis:
        return warning("leftovers", words, remedy)

    if place.layout == "spool":
        if many := observation.counts.abandoned:
            text = f"{count(many)} files in tmp whose writers are gone"
            yield left(text, f"spooltop purge {path} --box tmp --verdict abandoned")
        if many := place.presence.stale:
            text = f"{count(many)} presence files of consumers that have exited and hold no claim"
            yield ok("leftovers", f"{text}: the next consumer removes them")
        if (journal := place.leftovers.journal_bytes or 0) > _JOURNAL:
            yield left(f"the files in .spooltop take {size(journal)}", f"see which: ls -lhS {path}/.spooltop")
    if trials := place.leftovers.trials:
        text = f"{count(len(trials))} directories of a doctor or bench that was killed"
        yield left(text, f"spooltop doctor {path} --write removes them")
    if seen.demos:
        yield left(f"directories of killed demos: {', '.join(map(escape, seen.demos))}", "spooltop demo removes them")
    if many := sum(state.expired or 0 for state in observation.boxes.values()):
        yield left(f"{count(many)} messages in the trash have expired", f"spooltop purge {path} --expired")


# Checks of the file system: its kind, one mount for all, moves, syncs, room, and who else may mount it.

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


# ``doctor``: can this place keep the promises? Looks, judges, and gives for each finding what to do. Without ``write`` it
# changes nothing. What cannot be known from here, it says: nothing is ``ok`` that was only assumed, unless its text says so.

_CODES = {Health.OK: 0, Health.WARNING: 1, Health.PROBLEM: 2}


def examined(control: Control, *, write: bool, watch: float = 0.0, demos: Sequence[str] = ()) -> Examined:
    """Looks at the target, for ``watch`` seconds if that is not 0, and collects the facts. With ``write`` it tries what can only
    be tried. Raises ``Refused`` for ``write`` on a target that is read-only."""
    from spooltop.backends.directory.facts import collect

    if has_scheme(control.target):
        advice = "spooltop check looks at what holds for every queue"
        raise Refused("doctor: examines the host and the file system of a directory", path=control.target, advice=advice)
    path = os.path.abspath(control.target if os.path.isdir(control.target) else os.path.dirname(control.target) or ".")
    first = last = control.look()
    if write and (why := control.why_read_only):
        raise Refused(f"doctor --write: {why}", path=control.target)
    filling = None
    if watch:
        last = control.watch(watch)
        before, after = first.observation.disk or Disk(), last.observation.disk or Disk()
        filling = FillRate(
            last.taken_at - first.taken_at, _used(before.bytes_free, after.bytes_free),
            _used(before.inodes_free, after.inodes_free),
        )  # fmt: skip
    return Examined(collect(path, control.layout, write=write), last, filling, tuple(demos))


def _used(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after


def diagnose(seen: Examined) -> list[Diagnosis]:
    """Returns the result of each check, in their order."""
    return [*storage_checks(seen), *host_checks(seen), *spool_checks(seen)]


def exit_code(found: Iterable[Diagnosis]) -> int:
    """0 if all is well, 1 with warnings, 2 with problems."""
    return max((_CODES[one.health] for one in found), default=0)
