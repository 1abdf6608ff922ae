"""Hints from folders: which names matter, and what becomes of a watch whose folders come, go or cannot be watched."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from spooltop.backends.directory.events.folder_watch import Changes, FolderWatch
from spooltop.backends.directory.events.side_watch import side_watch

ADDED, MODIFIED, REMOVED = 1, 2, 3


class Source:
    """Yields what a test puts into it; ``watched`` are the folders of each time that somebody listened."""

    def __init__(self) -> None:
        self.watched: queue.Queue[list[str]] = queue.Queue()
        self.changes: queue.Queue[Changes | Exception] = queue.Queue()

    def __call__(self, paths: Iterable[str], stop: threading.Event) -> Iterator[Changes]:
        self.watched.put(list(paths))
        while not stop.is_set():
            try:
                found = self.changes.get(timeout=0.05)
            except queue.Empty:
                continue
            if isinstance(found, Exception):
                raise found
            yield found


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def started() -> Iterator[Callable[..., queue.Queue[str]]]:
    watches: list[FolderWatch] = []

    def start(source: Source | None, **wanted: Path) -> queue.Queue[str]:
        """Watches the folders for names that end with the name of the argument."""
        notices: queue.Queue[str] = queue.Queue()
        ends: dict[str, Callable[[str], bool]] = {
            str(folder): (lambda name, end=f".{end}": name.endswith(end)) for end, folder in wanted.items()
        }
        more = {} if source is None else {"source": source, "again": 0.01, "later": 0.0}
        watches.append(FolderWatch(ends, lambda: notices.put("changed"), **more))  # type: ignore[arg-type]
        watches[-1].start()
        return notices

    yield start
    for watch in watches:
        watch.close()
        watch.close()


def test_only_names_that_matter_are_told(source: Source, started: Callable[..., queue.Queue[str]], tmp_path: Path) -> None:
    notices = started(source, lock=tmp_path)
    assert source.watched.get(timeout=30) == [str(tmp_path)]
    source.changes.put({(ADDED, f"{tmp_path}/message"), (MODIFIED, f"{tmp_path}/below/x.lock"), (ADDED, "/elsewhere/x.lock")})
    source.changes.put(set())
    source.changes.put({(MODIFIED, f"{tmp_path}/x.lock"), (ADDED, f"{tmp_path}/y.lock")})
    assert notices.get(timeout=30) == "changed"
    source.changes.put({(REMOVED, f"{tmp_path}/x.lock")})
    assert notices.get(timeout=30) == "changed" and notices.empty()


def test_a_folder_that_comes_is_watched_and_one_that_was_replaced_again(
    source: Source, started: Callable[..., queue.Queue[str]], tmp_path: Path
) -> None:
    later = tmp_path / "later"
    notices = started(source, lock=tmp_path, log=later)
    assert source.watched.get(timeout=30) == [str(tmp_path)]
    later.mkdir()
    source.changes.put(set())
    assert source.watched.get(timeout=30) == [str(tmp_path), str(later)]
    source.changes.put({(REMOVED, str(later))})
    assert source.watched.get(timeout=30) == [str(tmp_path), str(later)]
    assert notices.get(timeout=30) == "changed"


def test_a_watch_that_fails_is_begun_again(source: Source, started: Callable[..., queue.Queue[str]], tmp_path: Path) -> None:
    notices = started(source, lock=tmp_path)
    for failure in (OSError("OS file watch limit reached"), ValueError("Unable to decode path")):
        source.changes.put(failure)
        source.watched.get(timeout=30)
    source.changes.put({(ADDED, f"{tmp_path}/x.lock")})
    assert notices.get(timeout=30) == "changed"


def test_between_two_tries_of_a_watch_that_fails_there_is_a_rest(tmp_path: Path) -> None:
    class Stopped(threading.Event):
        """Notes how long somebody waits for it, and is set by the third wait."""

        def __init__(self) -> None:
            super().__init__()
            self.waits: list[float | None] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.waits.append(timeout)
            if len(self.waits) == 3:
                self.set()
            return self.is_set()

    tries: list[list[str]] = []

    def failing(paths: Iterable[str], stop: threading.Event) -> Iterator[Changes]:
        tries.append(list(paths))
        if len(tries) > 9:
            stop.set()
        raise OSError("OS file watch limit reached")

    watch = FolderWatch({str(tmp_path): lambda name: True}, lambda: None, source=failing, again=7.0, later=3.0)
    watch._stop = stopped = Stopped()
    watch.start()
    watch._thread.join(30)
    assert stopped.waits == [3.0, 7.0, 7.0] and len(tries) == 2


def test_watchfiles_tells(started: Callable[..., queue.Queue[str]], tmp_path: Path) -> None:
    notices = started(None, lock=tmp_path)
    for number in range(300):  # until it listens: the library does not say when
        (tmp_path / f"{number}.lock").touch()
        try:
            assert notices.get(timeout=0.2) == "changed"
            return
        except queue.Empty:
            continue
    raise AssertionError("no change was reported")


@pytest.mark.parametrize("changed", ["spool/x.lock", "spool.lock", "logs/poll-im.log", "config/config.toml", "state/mutes.json"])
def test_what_a_look_reads_besides_the_boxes_is_watched(tmp_path: Path, changed: str) -> None:
    for folder in ("spool", "logs", "config", "state"):
        (tmp_path / folder).mkdir()
    changed_event = threading.Event()
    files = [str(tmp_path / "config/config.toml"), "/etc/spooltop.toml", str(tmp_path / "state/mutes.json")]
    watch = side_watch(str(tmp_path / "spool"), [f"{tmp_path}/lo*/poll-*.log", *files], [], changed_event.set)
    watch.start()
    try:
        for number in range(300):  # until it listens
            (tmp_path / "spool" / "cursors.json").write_text(str(number))
            (tmp_path / changed).write_text(str(number))
            if changed_event.wait(0.2):
                return
    finally:
        watch.close()
    raise AssertionError("no change was reported")
