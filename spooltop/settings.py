"""Settings from the environment (``SPOOLTOP_*``), then ``~/.config/spooltop/config.toml``, then ``/etc/spooltop.toml``.

A setting has one name everywhere: ``claim_long = "15m"`` in a file is ``SPOOLTOP_CLAIM_LONG=15m``; ``long = "15m"`` in a table
``[claim]`` is the same. The first source that has a setting decides it as a whole. In the environment the items of a list are
separated by ``:``, those of ``redact`` by ``:`` or ``,``, URLs by spaces.

``read_only`` stops operators, who come through ``control``; put and work continue.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from spooltop.engine.files import Content, NotRegular, read_small, why_mistrusted
from spooltop.model import Environ, Frozen, Target, UsageError, escape, full_name, has_password, has_scheme, parse_toml

from .observe.thresholds import PREFIX, Thresholds

SYSTEM_FILE = "/etc/spooltop.toml"
_MOST_BYTES = 1 << 20

LISTS = {
    "paths": ":", "read_only": ":", "redact": ":,", "poll_log": ":", "cursor_files": ":", "redis_tickets": " ", "layouts": ":",
}  # fmt: skip
"""Settings that are lists, and the characters that separate their items in the environment: paths and globs (what is opened
without a path), globs of paths, names of JSON fields, ``[SOURCE=]GLOB``, paths, URLs, ``PATH=NAME`` of a layout."""
_TABLE = "layouts"
"""List that a file may write as a table, ``{PATH = NAME}``."""
_NAMED = {":": "a colon", ":,": "a colon or a comma", " ": "a blank"}
_WORDS = (
    "poll_line", "cursor_field", "who_writes", "syslog", "mouse", "claims_hosts", "claims_pids", "redis_user", "redis_password",
    "stream_maxlen",
)  # fmt: skip
_YES_OR_NO = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off"), False)}
SECRET = "redis_password"
"""Setting whose value is never shown."""
NAMES = (*Thresholds.__struct_fields__, *LISTS, *_WORDS)


class Settings(Frozen):
    """``words`` are the settings as the environment writes them (``SPOOLTOP_NAME`` → text, and the rest of the environment);
    ``origins`` says where each is set: ``SPOOLTOP_NAME``, or ``name in FILE``."""

    words: Environ
    origins: Mapping[str, str] = {}

    def items(self, name: str) -> tuple[str, ...]:
        """Returns one of ``LISTS``; empty if it is not set."""
        text = self.words.get(PREFIX + name.upper(), "")
        separators = LISTS[name]
        parts = text.split() if separators == " " else re.split(f"[{separators}]", text)
        return tuple(part for part in parts if part)

    def kind_of(self, path: str) -> str:
        """Returns what ``path`` is by the setting ``layouts``: the name of a layout, or ``spool``; empty where it says nothing.
        Raises ``UsageError`` for an item that is no ``PATH=NAME``."""
        items = self.items(_TABLE)
        if not items or has_scheme(path):
            return ""
        asked = {os.path.abspath(path), os.path.realpath(path)}
        for item in items:
            named, _, name = item.rpartition("=")
            named = os.path.expanduser(named)
            if not name or not named.startswith("/"):
                where = self.origins.get(_TABLE, PREFIX + _TABLE.upper())
                raise UsageError(f"{where}: {escape(item)} is not PATH=NAME", advice='write layouts = {"/var/spool/x" = "nq"}')
            if asked & {os.path.abspath(named), os.path.realpath(named)}:
                return name
        return ""

    def blamed(self, error: UsageError) -> UsageError:
        """Names the file in an error about a setting that a file has, instead of the environment."""
        for name, origin in self.origins.items():
            variable = PREFIX + name.upper()
            if origin != variable and re.search(rf"{variable}\b", error.what):
                what = error.what.replace(f"{variable}=", f"{origin}: ").replace(variable, origin)
                advice = re.sub(rf"{variable}=([^\s,;]*)", rf'{name} = "\1"', error.advice)
                return UsageError(what, path=error.path, advice=advice)
        return error

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """Raises an error of what uses these settings as ``blamed``."""
        try:
            yield
        except UsageError as error:
            raise self.blamed(error) from None

    @property
    def redact(self) -> tuple[str, ...]:
        """Names of the JSON fields whose values are hidden."""
        return tuple(name for part in self.items("redact") if (name := part.strip()))

    @property
    def claims_hosts(self) -> str:
        """Machines that ever mounted the spools: ``any``, or ``this-machine``. Raises ``UsageError`` for anything else."""
        return self._any_or("this-machine", "claims_hosts", "no other machine ever mounted the spool")

    @property
    def claims_pids(self) -> str:
        """Hosts of the holders that name only a pid: ``any``, or ``this-host``. Raises ``UsageError`` for anything else."""
        return self._any_or("this-host", "claims_pids", "all who name only a pid run here, under the pids seen from here")

    def _any_or(self, narrow: str, name: str, only_where: str) -> str:
        word = self.words.get(PREFIX + name.upper(), "").strip()
        if word in ("", "any", narrow):
            return word or "any"
        what = f"{PREFIX}{name.upper()}={escape(word)} is neither any nor {narrow}"
        raise self.blamed(UsageError(what, advice=f"write {narrow} only where {only_where}"))

    @property
    def syslog(self) -> bool:
        """True if audit records are also sent to syslog. Raises ``UsageError`` unless it is yes or no."""
        return self._yes_or_no("syslog", default=False)

    @property
    def mouse(self) -> bool:
        """False if the dashboard leaves the mouse to the terminal. Raises ``UsageError`` unless it is yes or no."""
        return self._yes_or_no("mouse", default=True)

    def _yes_or_no(self, name: str, *, default: bool) -> bool:
        variable = PREFIX + name.upper()
        word = self.words.get(variable, "").strip().lower()
        if word in (known := {"": default, **_YES_OR_NO}):
            return known[word]
        what = f"{variable}={escape(word)} is neither yes nor no"
        raise self.blamed(UsageError(what, advice=f"write {variable}={int(not default)}"))

    def why_read_only(self, target: Target) -> str | None:
        """Returns the glob that makes ``target`` read-only, and where it is set; None if none does. A glob also covers everything
        below the path that it names, and is compared with the target's name as given and with its key, the real path."""
        globs = self.items("read_only")
        if not globs:
            return None
        import fnmatch

        asked = (full_name(target.display_name), target.key)
        for glob in globs:
            named = os.path.expanduser(glob).rstrip("/")
            wanted = {named} if set(named) & set("*?[") else {named, os.path.realpath(named)}
            for one in asked:
                if any(fnmatch.fnmatchcase(above, each) for above in _above(one) for each in wanted):
                    return f"read-only here, by {self.origins.get('read_only', f'{PREFIX}READ_ONLY')}: {escape(glob)}"
        return None


def from_environ(environ: Environ) -> Settings:
    """Returns the settings of the environment alone."""
    return Settings(dict(environ), {name: PREFIX + name.upper() for name in NAMES if PREFIX + name.upper() in environ})


def files_of(environ: Environ) -> tuple[str, ...]:
    """Returns the settings files, the user's own first. ``XDG_CONFIG_HOME`` as in the XDG Base Directory Specification: only if
    absolute."""
    home = environ.get("HOME", "")
    base = environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(home, ".config") if home.startswith("/") else ""
    return (*((os.path.join(base, "spooltop", "config.toml"),) if base else ()), SYSTEM_FILE)


def why_not_read(file: str) -> str:
    """Says why root does not read a settings file of its home: unless it and each folder above belong to root, and nobody else
    may write them, somebody else decides by it what root does. Empty where it is read, and for every other user. A folder with
    the sticky bit may be written by all: what is root's in it nobody else can replace."""
    if os.geteuid() or file == SYSTEM_FILE:
        return ""
    for path in dict.fromkeys((os.path.abspath(file), os.path.realpath(file))):
        for place in _above(path):
            try:
                found = os.stat(place or "/")
            except OSError:
                return ""  # there is nothing to read
            sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and not found.st_uid
            if not sticky and (why := why_mistrusted(found, 0)):
                return why if place == path else f"{escape(place)}: {why}"
    return ""


def load(environ: Environ, files: Sequence[str] | None = None) -> Settings:
    """Loads all settings. A missing file is skipped, and so is one that root does not trust. Raises ``UsageError`` for a file
    that cannot be read or parsed: it may contain ``read_only``, which its author relies on."""
    found = from_environ(environ)
    words, origins = dict(found.words), dict(found.origins)
    for file in files_of(environ) if files is None else files:
        for name, text in ({} if why_not_read(file) else _of_file(file)).items():
            if name not in origins:
                words[PREFIX + name.upper()] = text
                origins[name] = f"{name} in {escape(file)}"
    return Settings(words, origins)


class SettingsFiles:
    """The settings files of a long-running process: reads them again whenever one changes."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ
        self.paths = files_of(environ)
        self._states = self._look()

    def changed(self) -> Settings | None:
        """Loads all settings if a file has changed since the last call, else None. Raises ``UsageError`` as ``load``, once for
        each change."""
        states = self._look()
        if states == self._states:
            return None
        self._states = states
        return load(self._environ)

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [*map(_state, self.paths)]


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _of_file(file: str) -> dict[str, str]:
    content = _read(file)
    if content is None:
        return {}
    data, status = content
    try:
        parsed = parse_toml(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{escape(file)} is not valid TOML: {escape(str(error))}", advice="mend it, or move it away") from None
    found: dict[str, str] = {}
    for name, value in _flat(parsed):
        if name not in NAMES:
            import difflib  # only for what is misspelt

            near = difflib.get_close_matches(name, NAMES, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
            raise UsageError(f"{escape(file)}: no setting {escape(name)}", advice=advice)
        found[name] = _text(file, name, value)
    if status.st_mode & 0o077 and any(_has_secret(name, text) for name, text in found.items()):
        what = f"{escape(file)} has a password in it, and its mode {status.st_mode & 0o777:04o} opens it to others"
        raise UsageError(what, advice=f"chmod 600 {escape(file)}, and change that password")
    return found


def _has_secret(name: str, text: str) -> bool:
    words = text.split() if name == "redis_tickets" else [text]
    return (name == SECRET and bool(text)) or any(has_password(word) for word in words)


def _read(file: str) -> Content | None:
    try:
        return read_small(file, limit=_MOST_BYTES, whole=True, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if isinstance(error, PermissionError) and not os.path.exists(file):
            return None  # in a directory that may not be searched, somebody else's home: HOME as su and setpriv leave it
        if error.errno == errno.EFBIG:
            raise UsageError(f"{escape(file)} is larger than 1 MiB: no settings", advice="look who put it there") from None
        if isinstance(error, NotRegular):
            raise UsageError(f"{escape(file)} is not a regular file", advice="look who put it there") from None
        raise UsageError(f"{escape(file)} cannot be read: {error.strerror}", advice="mend its rights, or move it away") from None


def _flat(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict) and f"{above}{name}" == _TABLE:
            yield _TABLE, [f"{path}={kind}" if isinstance(kind, str) else None for path, kind in value.items()]
        elif isinstance(value, dict):
            yield from _flat(value, f"{above}{name}_")
        else:
            yield f"{above}{name}", value


def _text(file: str, name: str, value: object) -> str:
    """Writes a value as in the environment."""
    if name in LISTS:
        parts = value if isinstance(value, list) else [value]
        between = LISTS[name]
        texts = [part for part in parts if isinstance(part, str) and not set(between) & set(part)]
        if len(texts) == len(parts):
            return between[0].join(texts)
        what = _NAMED[between]
        raise UsageError(f"{escape(file)}: {name} wants a list of words without {what}", advice=f'write {name} = ["…"]')
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"{escape(file)}: {name} wants one word or number", advice='write claim_long = "15m", syslog = true')


def _above(path: str) -> Iterator[str]:
    """Yields ``path`` and every directory above it; the root as the empty string, which is ``/`` without its slash."""
    while path not in ("", "/"):
        yield path
        path = os.path.dirname(path)
    yield ""
