"""spooltop by a clock that stands still: ``python -m tests.behaviour.clocked FILE WORDS…``, where FILE holds epoch seconds."""

import runpy
import sys
import time
from pathlib import Path

clock = Path(sys.argv[1])
time.time = lambda: float(clock.read_text() or 0)  # before anything of spooltop is imported
del sys.argv[1]
runpy.run_module("spooltop", run_name="__main__", alter_sys=True)
