"""Answers lines of JSON on standard input, ``{"do": NAME, ...}``, each with a line of JSON. Runs without spooltop."""

import json
import os
import sys
from pathlib import Path


def cut(name, before=False):
    """Makes the next call of ``os.NAME`` the last thing that this process does; ``before``: it ends without the call."""
    real = getattr(os, name)

    def last(*args, **kwargs):
        if not before:
            real(*args, **kwargs)
        os._exit(9)

    setattr(os, name, last)


def answer(*functions):
    """Serves ``functions`` by their names until standard input ends. ``cut`` is served everywhere."""
    known = {one.__name__: one for one in (*functions, cut)}
    for line in sys.stdin:
        asked = json.loads(line)
        result = known[asked.pop("do")](**asked)
        print(json.dumps(result), flush=True)


def text(data):
    """Bytes as text for JSON."""
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data


SPOOL = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
