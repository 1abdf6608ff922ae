"""The user's own state of each target: muted sources, and the view and orders of the dashboard.

Each file holds one object, ``{"schema": 1, "targets": {real path of a target: ...}}``, names escaped. In ``mutes.json`` a target
has ``{source: end in epoch seconds}``; in ``views.json`` ``{"view", "sorts": {list: column, or -column where it descends},
"last_filter"}``, the target that changed last at the end. Losing the views costs nothing but a key or two: what cannot be read of
them is ignored and replaced at the next chance.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Literal

from msgspec import Meta, MsgspecError, Struct, convert, field, json

from spooltop.engine.atomic import publish
from spooltop.engine.files import REAL_FILES, NotRegular, read_small
from spooltop.model import LONGEST_FILTER, KeptView, Problem, Refused, Severity, Snapshot, Unreadable, UsageError
from spooltop.model.vocabulary import Clock, Environ, clock_time, escape, unescape

LONGEST = 366 * 86_400.0
"""Longest mute in seconds: a mute has an end that somebody will see."""

_OF_A_SOURCE = ("cursor-reverted", "cursor-stalled", "cursor-stopped", "cursor-rewound", "cursor-missing", "cursor-unreadable")
_MUTES, _MUTES_LOCK = "mutes.json", ".mutes.lock"
_VIEWS, _VIEWS_LOCK = "views.json", ".views.lock"
_CAP = 1 << 20
_MOST_VIEWS = 200
"""Targets whose view is kept; the one that changed longest ago is dropped first."""


def state_folder(settings: Environ) -> str | None:
    """Returns ``$XDG_STATE_HOME/spooltop`` from the environment, by default below ``~/.local/state``; None if no home is set. A
    relative path counts as unset (XDG base directory specification)."""
    home = settings.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):
        home = settings.get("HOME", "")
        if not os.path.isabs(home):
            return None
        home = os.path.join(home, ".local", "state")
    return os.path.join(home, "spooltop")


@contextmanager
def _opened(path: str, owner: int | None = None, lock_name: str = "") -> Iterator[int]:
    """Opens the folder ``path``, and holds the lock ``lock_name`` in it ("": none). Raises ``OSError``, also where the folder
    belongs to another user than ``owner`` (None: any)."""
    files = REAL_FILES
    opened = [folder := files.open_dir(path, follow=True)]
    try:
        status = files.fstat(folder)
        if owner is not None and status.st_uid != owner:
            raise PermissionError(f"{path} belongs to another user")
        if lock_name:
            lock = files.open_lasting(lock_name, folder, mode=0o600)
            opened.insert(0, lock)
            files.copy_owner(lock, status)  # by sudo it would else lock the user's own dashboard out
            files.lock_coarse(lock, wait=True)
        yield folder
    finally:
        files.close_all(opened)


def _publish(folder: int, name: str, targets: Mapping[str, object]) -> None:
    data = json.format(json.encode({"schema": 1, "targets": targets}), indent=1) + b"\n"
    publish(REAL_FILES, folder, name, data, REAL_FILES.fstat(folder), mode=0o600)


class _Mutes(Struct):
    schema: Literal[1]
    targets: dict[str, dict[str, Annotated[float, Meta(lt=1e15)]]]


def apply_mutes(snapshot: Snapshot, ends: Mapping[str, float], reason: str = "") -> Snapshot:
    """Returns the snapshot without the cursor problems of the sources in ``ends``, plus one last line that names them.

    Mutes that ended before the look are ignored. A shared file that does not parse concerns no single source and stays.
    ``reason`` says why mutes are not known.
    """
    ends = {source: end for source, end in ends.items() if end > snapshot.taken_at}
    if not ends and not reason:
        return snapshot
    own = {cursor.source for cursor in snapshot.cursors if not cursor.shared}
    problems = [
        problem
        for problem in snapshot.problems
        if not (
            problem.view == "cursors"
            and problem.subject in ends
            and problem.code in _OF_A_SOURCE
            and (problem.code != "cursor-unreadable" or problem.subject in own)
        )
    ]
    if ends:
        named = sorted(ends.items(), key=lambda item: (item[1], item[0]))
        words = ", ".join(f"{escape(source)} until {_until(end, snapshot.taken_at)}" for source, end in named)
        problems.append(Problem("muted", Severity.NOTE, f"muted: {words}", len(named), view="cursors", subject=named[0][0]))
    if reason:
        problems.append(Problem("muted", Severity.NOTE, f"nothing is muted: {reason}", view="cursors"))
    return snapshot.replace(problems=tuple(problems), muted=ends)


def _until(end: float, now: float) -> str:
    """Formats the end: the time of day; with the date if it is a day away or more."""
    if end - now < 86_400:
        return clock_time(end, offset=False)[:5]
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(end))


class MuteFile(Struct):
    """The mutes of one target, kept in ``folder`` (None: not kept) under ``target``, its real path.

    Thread-safe. Mutes set in another dashboard of the same user count here too: a file that has changed is read again.
    """

    _folder: str | None
    _target: str
    _clock: Clock
    _known: tuple[tuple[int, int, int] | None, dict[str, float], str] = None, {}, ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The file, where mutes are kept."""
        return () if self._folder is None else (os.path.join(self._folder, _MUTES),)

    def ends(self) -> tuple[Mapping[str, float], str]:
        """Returns source → end, and in words why they are not known (""). Reads the file if it has changed: each look asks."""
        if self._folder is None:
            return {}, ""
        state = None
        with suppress(OSError):  # reading it says why
            found = os.lstat(os.path.join(self._folder, _MUTES))
            state = found.st_ino, found.st_mtime_ns, found.st_size
        known = self._known
        if state is None or known[0] != state:
            try:
                known = self._known = state, _read_mutes(self._folder).get(self._target, {}), ""
            except Unreadable as error:
                known = self._known = state, {}, escape(str(error))
        return known[1:]

    def set(self, source: str, seconds: float) -> float:
        """Mutes ``source`` for ``seconds`` and returns the end. Raises ``UsageError`` for an invalid duration, ``Unreadable`` if
        the file does not parse (it is not changed), ``Refused`` if it cannot be written."""
        if not 0 < seconds <= LONGEST:
            raise UsageError("a mute has an end, in at most a year", "say for how long: 1h, 2d")
        end = self._clock() + seconds
        with self._changing() as ends:
            ends[source] = end
        return end

    def drop(self, source: str) -> bool:
        """Ends the mute of ``source``; False if it was not muted. Raises as ``set``."""
        with self._changing() as ends:
            return ends.pop(source, None) is not None

    @contextmanager
    def _changing(self) -> Iterator[dict[str, float]]:
        if self._folder is None:
            raise Refused("mute: there is no place to keep it", "set XDG_STATE_HOME or HOME")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with _opened(self._folder, lock_name=_MUTES_LOCK) as folder:
                targets = _read_mutes(self._folder)
                now = self._clock()
                yield targets.setdefault(self._target, {})
                lasting = {
                    escape(path): left
                    for path, ends in targets.items()
                    if (left := {escape(source): end for source, end in ends.items() if end > now})
                }
                _publish(folder, _MUTES, lasting)
        except OSError as error:
            advice = "fix its permissions, or set XDG_STATE_HOME"
            raise Refused(f"mute: it cannot be kept: {error.strerror}", advice, path=self._folder) from error


def _read_mutes(folder: str) -> dict[str, dict[str, float]]:
    """Reads and parses the file: real path of a target → source → end. Raises ``Unreadable``."""
    path = os.path.join(folder, _MUTES)
    try:
        with _opened(folder) as opened:
            targets = json.decode(read_small(_MUTES, opened, limit=_CAP).data, type=_Mutes).targets
        return {unescape(path): {unescape(source): end for source, end in ends.items()} for path, ends in targets.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (NotRegular, ValueError, MsgspecError, RecursionError) as error:
        raise Unreadable("not a file of mutes; it is left as it is", "fix it or move it away", path=path) from error
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}", path=path) from error


class _Views(Struct):
    schema: Literal[1]
    targets: dict[str, Any]


class ViewFile(Struct):
    """Reads and writes what is kept for one target, in ``folder`` (None: nothing) under ``target``, its real path. Root leaves
    the folders of other users alone, and nobody trusts a folder that is another user's."""

    _folder: str | None
    _target: str
    _user: int = field(default_factory=os.geteuid)

    def read(self) -> KeptView:
        """Returns what is kept; the default where nothing is, or it cannot be read."""
        if self._folder is not None:
            with suppress(OSError), _opened(self._folder, self._user) as folder:
                return _read_views(folder).get(self._target, KeptView())
        return KeptView()

    def write(self, kept: KeptView) -> bool:
        """Keeps it; False where that is not possible, which hinders nobody."""
        if self._folder is not None:
            with suppress(OSError):
                self._make(self._folder)
                with _opened(self._folder, self._user, _VIEWS_LOCK) as folder:
                    views = _read_views(folder)
                    views.pop(self._target, None)
                    views[self._target] = kept
                    last = list(views.items())[-_MOST_VIEWS:]
                    _publish(folder, _VIEWS, {escape(path): _with_filter(view, escape) for path, view in last})
                return True
        return False

    def _make(self, folder: str) -> None:
        """Makes the folder if it is missing; root only below a folder of its own. Raises ``OSError``."""
        above = folder
        while not os.path.isdir(above) and above != os.path.dirname(above):
            above = os.path.dirname(above)
        if self._user == 0 and os.stat(above).st_uid != 0:
            raise PermissionError(f"{above} belongs to another user")
        os.makedirs(folder, mode=0o700, exist_ok=True)


def _with_filter(kept: KeptView, form: Callable[[str], str]) -> KeptView:
    """A filter may have characters that JSON has not: it is kept escaped, and as far as it is not too long."""
    return kept.replace(last_filter=form(kept.last_filter)[:LONGEST_FILTER])


def _view_read(view: Any) -> Any:
    """A view as it is written now: an order was the word ``-column`` once, without the sign if ascending."""
    match view:
        case {"sorts": dict(sorts)}:
            read = {
                box: {"column": one.removeprefix("-"), "descending": one.startswith("-")} if isinstance(one, str) else one
                for box, one in sorts.items()
            }
            return view | {"sorts": read}
    return view


def _read_views(folder: int) -> dict[str, KeptView]:
    """Reads and parses the file; a target that is not understood is left out."""
    found: dict[str, KeptView] = {}
    with suppress(OSError, MsgspecError, RecursionError):
        for path, view in json.decode(read_small(_VIEWS, folder, limit=_CAP).data, type=_Views).targets.items():
            with suppress(MsgspecError, ValueError):
                found[unescape(path)] = _with_filter(convert(_view_read(view), KeptView), unescape)
    return found
