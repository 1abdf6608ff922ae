"""What lies below a case's folder, as lines that a person can compare."""

from __future__ import annotations

import json
import os
import stat
from hashlib import sha256
from pathlib import Path

from .normal import Normaliser

__all__ = ["tree"]

_SHORT = 300
"""Characters up to which a content is shown, not its digest."""


def tree(folder: Path, names: Normaliser, owner: tuple[int, int]) -> list[str]:
    """Lists all files of ``w`` and ``state`` below ``folder``: mode, owner where it is not ``owner``, path, content. Messages are
    in the order of their ids, and what is spooltop's own comes last."""
    return [_line(path, path.relative_to(top), names, owner) for top in (folder / "w", folder) for path in _paths(folder, top)]


def _paths(folder: Path, top: Path) -> list[Path]:
    below = top if top != folder else folder / "state"
    return sorted(below.rglob("*"), key=_place)


def _place(path: Path) -> list[str]:
    """Puts consumers in the order in which they came: their names are random."""
    parts = [part.lstrip(".") if part != ".spooltop" else "~" for part in path.parts]
    return [*parts[:-1], str(path.lstat().st_mtime_ns)] if parts[-3:-1] == ["~", "consumers"] else parts


def _line(path: Path, name: Path, names: Normaliser, owner: tuple[int, int]) -> str:
    found = path.lstat()
    other = "" if (found.st_uid, found.st_gid) == owner else f" {found.st_uid}:{found.st_gid}"
    shown = names.text(str(name).replace("\n", "\\x0a"))
    begin = f"{stat.S_IMODE(found.st_mode):04o}{other} {shown}"
    if stat.S_ISDIR(found.st_mode):
        return f"{begin}/"
    if stat.S_ISLNK(found.st_mode):
        return f"link{other} {shown} -> {os.readlink(path)}"
    if not stat.S_ISREG(found.st_mode):
        return f"{begin} is no file"
    links = f" ={found.st_nlink}" if found.st_nlink > 1 else ""
    return f"{begin}{links} {_content(path, names)}"


def _content(path: Path, names: Normaliser) -> str:
    """Shows a short content, and the digest of a long one; of journals, whose format may change, the members of the lines."""
    try:
        data = path.read_bytes()
    except PermissionError:
        return "unreadable"
    if path.suffix == ".jsonl":
        members = {name for line in data.split(b"\n") if line.startswith(b"{") for name in json.loads(line)}
        return f"lines of {', '.join(sorted(members))}"
    if path.suffix in (".journal", ".counters"):
        return "present"
    text = names.text(os.fsdecode(data)).replace("\n", "\\n") if len(data) < 10 * _SHORT else ""
    if not data or 0 < len(text) <= _SHORT:
        return f'"{text}"'
    return f"{len(data)} bytes {sha256(data).hexdigest()[:12]}"
