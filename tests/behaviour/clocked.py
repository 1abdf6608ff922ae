"""spooltop by a clock that stands still: ``python -m tests.behaviour.clocked FILE WORDS…``, where FILE holds epoch seconds. The
time since boot stands still with it, or the clock would seem to have been set back."""

import runpy
import sys
import time
from pathlib import Path

setting, clock_gettime = Path(sys.argv[1]), time.clock_gettime


def now() -> float:
    return float(setting.read_text() or 0)


began, booted = now(), clock_gettime(time.CLOCK_BOOTTIME)
# Before anything of spooltop is imported:
time.time = now
time.clock_gettime = lambda clock: booted + now() - began if clock == time.CLOCK_BOOTTIME else clock_gettime(clock)
del sys.argv[1]
runpy.run_module("spooltop", run_name="__main__", alter_sys=True)
