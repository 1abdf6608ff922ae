"""Replaces what no two runs share: ids, times, young ages, pids, hosts, users, room on the disk, versions, paths.

Ages from a minute up stay, rounded as spooltop rounds them: the worlds make what they hold old enough that these are steady.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

__all__ = ["Normaliser"]

HOST = os.uname().nodename
ELSEWHERE = "elsewhere"
"""Name of another machine, on which some messages were put."""
_ID = re.compile(rf"\d{{16}}\.P\d+R[0-9a-f]{{16}}\.(?:{re.escape(HOST)}|{ELSEWHERE})(?![\w-])")
_ENTRY = re.compile(r"(?<![\d.])1[789]\d{11}-\d+\b")
_OPERATION = re.compile(r'(?:operation"?:? "?|undo \S+ |/(?:held|rejected|trash)/)([0-9a-f]{10})\b')
_OPERATION_ROW = re.compile(r"^([0-9a-f]{10})(?= )", re.MULTILINE)
_TOKEN = re.compile(r"\b[0-9a-f]{32}\b")
_PID = re.compile(r"\bpid (\d+)\b")
_CLAIM_PID = re.compile(r"c=[0-9a-f]{32}\.\d{16}:2,P(\d+)")
_FIXED_PIDS = frozenset(("1", "9155", "4194303", "4194302"))
"""Pids that a world names, or that mean the same everywhere."""
_SECONDS = re.compile(
    r"(?P<column>  +|^ +)?(?<![\w.:-])(?<!--watch )(?<!--older-than )(?P<sign>[≤≥~]?)<?\d+(?:\.\d+)?m?s(?![\w/-])"
)
_DAYS = re.compile(r"(?P<column>  +|^ +)?(?<![\w.:-])(?P<sign>[≤≥~<]?)\d+[dy](?![\w/-])")
_ROOM = re.compile(r"\S+ [\d.,]+\w?B free >?[\d.]+%, inodes free >?[\d.]+%")
_AGES = frozenset(("age", "oldest_age", "in_box_age", "window", "watched_for", "slope_window", "longest_held"))
_OF_MACHINE = frozenset((
    "boot_id", "bytes_free", "bytes_total", "cpu", "device", "file_system", "fs_type", "inodes_free", "inodes_total",
    "machine_id", "memory", "pid_ns", "start", "target_marks", "uid",
))  # fmt: skip
_MACHINE = (
    "clock", "exports", "file-system", "inodes", "inotify-instances", "inotify-watches", "kernel", "locks", "processes", "rename",
    "space", "sync",
)  # fmt: skip
"""Checks of the doctor whose findings are the machine's, not the world's."""
_NOW = (1.7e9, 2.6e9)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), shown)
    for pattern, shown in (
        (r"\b\d{4}-\d\d-\d\dT[\d:]{8}(?:\+00:00|Z)", "DATETIME"),
        (r"\b\d{4}-\d\d-\d\d\b", "DATE"),
        (r"\b\d\d:\d\d:\d\d(?:\.\d+)?(?: \+0000)?(?!\d)", "TIME"),
        (r"(?<![\w.])1[789]\d{8}\.\d{4,}", "T"),
        (r"(?<=move-)(TOKEN\d+)-[0-9a-f]{64}\b", r"\1-DIGEST"),
        (r"(?<=queued:)\d{13}\b", "MS"),
        (rf"\b(?:HOST|{re.escape(HOST)})-(PID\d+)-[0-9a-f]{{6}}\b", r"HOST-\1-HEX"),  # a consumer of a stream
        (r"(TOKEN\d+\.|,t=)\d{16}\b", r"\1US"),
        (r"(?<=age is )([\d.]+)s", lambda match: _age(float(match[1]))),
        (r"≥0(\.0/s)?(?=\s|$)", r"0\1"),  # where a busy machine saw the directory late
        (r"(attempt \d+ .*? after )<?[\d.]+m?s", r"\1Ns"),
        (r"(?<=\(root's)[^()]+(?= are not visible)", ""),  # a process that is just beginning lets nobody look into it
        (r"free'=\d+B;;;0;\d+", "free'=ROOM"),
        (r"age'=(\d+(?:\.\d+)?)s", lambda match: f"age'={_age(float(match[1]))}"),
        (r"(?<=  ) *[\d.]+MB(?=  )", lambda match: "MEM".rjust(len(match[0]))),
        (r" +~[\d.]+[kM]?B\b", lambda match: " ~BYTES".rjust(len(match[0]))),  # the server's own estimate of what a stream takes
        (r"^(spooltop_(?:scan_seconds|scan_timestamp_seconds|disk_free_bytes|process_\w+)\S*) \S+$", r"\1 NUMBER"),
        (r"^(spooltop_oldest_age_seconds\S*) (\S+)$", lambda match: f"{match[1]} {_age(float(match[2]))}"),
        (r'version="[^"]+"', 'version="VERSION"'),
        (r"^(  -\w) (\S+), (--[\w-]+) \2$", r"\1, \3 \2"),  # Python 3.13 and later names the value once
        (r"\(choose from [^)]*\)", lambda match: match[0].replace("'", "")),  # with quotes before Python 3.12.8
        (rf"^(?:ok|warning|problem) ({'|'.join(_MACHINE)}): .*", r"\1: as this machine is"),
        (r"(?<=/spooltop/)([\w.]+)-[0-9a-f]{16}\b", r"\1-HASH"),
    )
)


def _age(seconds: float) -> str:
    """Returns an age that stays the same while a case runs."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"~{int(seconds // size)}{unit}"
    return f"~{int(seconds)}s"


class Normaliser:
    """Gives every id, token, operation and pid of a case a name of its own, the same on each run. ``paths`` are real paths and
    what stands for them; ``days``: ages in days are replaced too, as those of stored spools grow."""

    def __init__(self, paths: Mapping[str, str], user: str, group: str, *, seconds: bool, days: bool) -> None:
        self._paths = sorted(paths.items(), key=lambda pair: -len(pair[0]))
        self._owner = dict.fromkeys((user, group), "USER") if user != "root" else {}
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._seconds, self._days = seconds, days

    def learn(self, kind: str, real: str) -> None:
        """Gives ``real`` the next name of its kind: ID3, PID1."""
        if real not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[real] = f"{kind}{self._counts[kind]}"

    def real(self, word: str) -> str:
        """Returns ``word`` with the real things for their names: ID1, OP1."""
        names = {name: real for real, name in self._names.items()}
        return re.sub(r"\b(?:ID|OP|PID|TOKEN|ENTRY)\d+\b", lambda match: names.get(match[0], match[0]), word)

    def text(self, text: str) -> str:
        """Returns ``text`` with names for what differs between runs. Lines of JSON are set apart by their members."""
        for real, shown in self._paths:
            text = re.sub(rf"{re.escape(real)}(\S*)(  +|)", partial(_path_cell, shown), text)
        for kind, pattern in (("ID", _ID), ("ENTRY", _ENTRY)):
            for real in sorted(set(pattern.findall(text))):
                self.learn(kind, real)
        for real in [*_OPERATION.findall(text), *_OPERATION_ROW.findall(text)]:
            self.learn("OP", real)
        for real in _TOKEN.findall(text):
            self.learn("TOKEN", real)
        for real in [*_PID.findall(text), *_CLAIM_PID.findall(text)]:
            if real not in _FIXED_PIDS:
                self.learn("PID", real)
        return visible("\n".join(self._line(line) for line in text.split("\n")))

    def _line(self, line: str) -> str:
        if line.startswith("{") and line.endswith("}"):
            try:
                return _folded(self._value("", json.loads(line)))
            except ValueError:
                pass  # not JSON: a line of a file
        return self._plain(line)

    def _plain(self, text: str) -> str:
        for real, name in self._names.items():
            if name.startswith("PID"):
                text = re.sub(rf"(  +){real}(?!\w)((?: \w\S*(?!\S))*)(  +)", partial(_pid_cell, name), text)
                text = re.sub(rf"(?:(?<![\w.])|(?<=:2,P)){real}(?!\w|\.\d)", name, text)
            elif name.startswith("OP"):  # a column of its own
                text = text.replace(f"{real}  ", f"{name.ljust(len(real))}  ").replace(real, name)
            else:
                text = text.replace(real, name)
        text = re.sub(rf"(?<![\w.-]){re.escape(HOST)}(?![\w-])", "HOST", text)
        for pattern, shown in _RULES:
            text = pattern.sub(shown, text)
        text = self._masked(_ROOM.sub("ROOM on the disk", text))
        for owner, shown in self._owner.items():
            text = re.sub(rf"(?<![\w-]){re.escape(owner)}()(?![\w-])( {{3,}}|)", partial(_path_cell, shown), text)
            cut = "|".join(re.escape(owner[:length]) for length in range(4, len(owner)))  # too long for its column
            if cut:
                text = re.sub(rf"(?<= )(?:{cut})…(?=  )", lambda match, shown=shown: shown.ljust(len(match[0])), text)
        return text

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("check") in _MACHINE:
                return {"check": value["check"]}
            if value.get("bytes_estimated"):
                value = {**value, "bytes": "-"}
            return {self._plain(key): self._value(key, item) for key, item in value.items()}
        if name in _OF_MACHINE and value is not None:
            return "-"
        if isinstance(value, list):
            return [self._value("", item) for item in value]
        if isinstance(value, str):
            return self._plain(value)
        if isinstance(value, bool) or value is None:
            return value
        if name == "pid":
            return self._names.get(str(value), value if str(value) in _FIXED_PIDS else "PID")
        if _NOW[0] < value < _NOW[1]:
            return "T"
        return self._masked(_age(value)) if name in _AGES or name.endswith("_age") else value

    def _masked(self, text: str) -> str:
        """Replaces the ages in ``text`` that are not steady in this world."""
        if self._seconds:
            text = _SECONDS.sub(partial(_cell, "Ns"), text)
        return _DAYS.sub(partial(_cell, "Nd"), text) if self._days else text


def _path_cell(shown: str, match: re.Match[str]) -> str:
    """Returns what replaces a path or a user; in a table the columns behind stay where they were."""
    cell = shown + match[1]
    return cell.ljust(len(match[0])) if match[2] else cell


def _pid_cell(name: str, match: re.Match[str]) -> str:
    """Returns what replaces a pid and the words behind it; in a table the columns behind stay where they were."""
    before, words, after = match[1], match[2], match[3]
    cell = name + words
    if len(after) == 2 and not words:
        return cell.rjust(len(match[0]) - 2) + after
    return before + cell.ljust(len(match[0]) - len(before))


def _folded(value: Any) -> str:
    """Writes a value as JSON on lines of at most 150 characters, broken between members."""
    whole = json.dumps(value)
    if len(whole) <= 150 or not isinstance(value, (dict, list)):
        return whole
    if isinstance(value, dict):
        begin, end, items = "{", "}", [f"{json.dumps(name)}: {_folded(item)}" for name, item in value.items()]
    else:
        begin, end, items = "[", "]", [_folded(item) for item in value]
    lines = [begin]
    for place, item in enumerate(items, 1):
        part = item.replace("\n", "\n ") + ("," if place < len(items) else end)
        if len(lines[-1]) + len(part) > 150 and lines[-1] != begin:
            lines.append("")
        lines[-1] += part if lines[-1] == begin else f" {part}"
    return "\n".join(lines)


def _cell(shown: str, match: re.Match[str]) -> str:
    """Returns what replaces an age: in a column it ends where the age ended."""
    text = f"{match['sign']}{shown}"
    return text.rjust(len(match[0])) if match["column"] else text


def visible(text: str) -> str:
    """Escapes what a terminal would interpret, and bytes that are no UTF-8."""
    return "".join(char if char == "\n" or char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
