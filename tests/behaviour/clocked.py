"""spooltop by a clock that stands still, of a user called ann: ``python -m tests.behaviour.clocked FILE WORDS…``, where FILE has
epoch seconds. The time since boot stands still with it, or the clock would seem to have been set back. ``readings`` beside FILE
grows where a thread that looks at spools reads the clock."""

import os
import pwd
import runpy
import sys
import threading
import time
from pathlib import Path

setting, clock_gettime, getpwuid = Path(sys.argv[1]), time.clock_gettime, pwd.getpwuid
readings = open(setting.with_name("readings"), "ab", buffering=0)  # noqa: SIM115  for as long as the process lasts


def now() -> float:
    if threading.current_thread().name in ("snapshots", "glance"):
        readings.write(b".")
    return float(setting.read_text() or 0)


def user(uid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd(("ann", "x", uid, uid, "", "/", "")) if uid == os.geteuid() else getpwuid(uid)


began, booted = now(), clock_gettime(time.CLOCK_BOOTTIME)
# Before anything of spooltop is imported:
time.time, pwd.getpwuid = now, user
time.clock_gettime = lambda clock: booted + now() - began if clock == time.CLOCK_BOOTTIME else clock_gettime(clock)
del sys.argv[1]
runpy.run_module("spooltop", run_name="__main__", alter_sys=True)
