"""Checks of the target itself: boxes, owners and rights, consumers of other machines, writers of cursors, leftovers."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from spooltop.backends.access import quoted
from spooltop.model.place import FolderState, PlaceFacts
from spooltop.model.text import escape
from spooltop.model.units import count, size
from spooltop.model.vocabulary import Action

from .diagnosis import Diagnosis, Examined, Health, ok, problem, warning, worst_of

__all__ = ["spool_checks"]

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
    path = quoted(place.path)
    if place.format is None:
        own = place.folders[".spooltop"]
        text = "no .spooltop yet: the first consumer or operation makes it" if own.missing else "format 1 or unknown: no number"
        yield ok("format", text)
    elif place.format > place.format_known:
        yield problem(
            "format", f"its format is {place.format}, this version knows up to {place.format_known}: it only looks",
            "update spooltop: pip install -U spooltop",
        )  # fmt: skip
    elif place.format < place.format_known:
        yield ok("format", f"format {place.format}; the first change raises it to {place.format_known}, which {path} then keeps")
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
