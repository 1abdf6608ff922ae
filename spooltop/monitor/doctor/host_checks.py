"""Checks of the machine: kernel, limits of inotify, the clock, and whether processes are visible."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from spooltop.model.units import count, duration

from .diagnosis import Diagnosis, Examined, Health, ok, problem, warning, worst_of

__all__ = ["host_checks"]

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
