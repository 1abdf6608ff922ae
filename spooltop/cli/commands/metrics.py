"""``metrics``: values for Prometheus, once, into a file again and again, or over HTTP, by ``prometheus_client``."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate, islice, product
from typing import Any
from wsgiref.simple_server import WSGIServer

from msgspec import Struct, field

from spooltop import __version__
from spooltop.control import Control
from spooltop.cursors.model import VERDICTS, Cursor, cursors_by_key
from spooltop.model import CODES, Observation, OperationRecord, Outcome, Snapshot, SpooltopError, Unreadable, UsageError
from spooltop.model.vocabulary import Action, Box, Clock, Json, escape, parse_age
from spooltop.monitor.events import OperationFeed, Watching

from ..context import Arguments, dumps, signals_to, targets_of
from .status import look_each

try:
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server, write_to_textfile
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise UsageError("metrics needs prometheus_client", "in the checkout, pip install '.[metrics]'") from None

OTHER = "other"
"""Label of the sources past the first ``_MOST_SOURCES``."""
_MOST_SOURCES = 200
_KEPT = 600.0
"""Seconds for which a source that vanished keeps its series, so that a file that is replaced leaves no gap."""
_STALE = 60.0
"""Seconds without a look after which a target does not count as completely looked at."""
_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0, 3600.0)
"""Bounds of the histograms in seconds: from a bot's reply to an hour in a backlog."""
_RECENT = 1_000
"""Operations that are remembered one by one, since their counts may still grow."""

_Sample = tuple[Any, ...]


class _Durations(Struct):
    """A histogram of durations."""

    _counts: list[float] = field(default_factory=lambda: [0.0] * (len(_BOUNDS) + 1))
    _sum: float = 0.0

    def add(self, seconds: float, weight: float) -> None:
        self._counts[bisect_left(_BOUNDS, seconds)] += weight
        self._sum += seconds * weight

    def values(self) -> tuple[list[tuple[str, float]], float]:
        """Returns the values of the buckets, and their sum."""
        return list(zip([*map(str, _BOUNDS), "+Inf"], accumulate(self._counts), strict=True)), self._sum


class _Operations(Struct):
    """Counts the items of operations by action and outcome. A journal drops old parts, and a counter does not go back."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Has every action, so that the first of its kind is an increase too; none where no log was ever read."""
    recent: dict[str, OperationRecord] = {}
    _dropped_at: float = -math.inf

    def add(self, records: Iterable[OperationRecord]) -> None:
        """Adds operations, the oldest first; those that are known already count once."""
        self.counts.update(dict.fromkeys(product(map(str, Action), map(str, Outcome)), 0))
        for record in records:
            if (known := self.recent.get(record.operation)) is not None:
                self.counts.subtract(_outcomes(known))
            elif record.at <= self._dropped_at:
                continue
            self.counts.update(_outcomes(record))
            self.recent[record.operation] = record
        while len(self.recent) > _RECENT:
            self._dropped_at = self.recent.pop(next(iter(self.recent))).at


def _outcomes(record: OperationRecord) -> Mapping[tuple[str, str], int]:
    return {(str(record.action), str(one)): getattr(record, one) for one in Outcome}


class TargetMetrics(Struct, eq=False):
    """The metrics of one target. Looks come from one thread, scrapes from others.

    ``clock`` returns epoch seconds. Histograms and rates hold what was seen to end since watching began.
    """

    target: str
    clock: Clock = time.time
    feed: OperationFeed = field(default_factory=OperationFeed)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _snapshot: Snapshot | None = None
    _seconds: float = 0.0
    _at: float = 0.0
    _failed: bool = False
    _waited: _Durations = field(default_factory=_Durations)
    _worked: _Durations = field(default_factory=_Durations)
    _sources: dict[str, tuple[Cursor, float]] = {}
    """The last that was seen of each cursor, and when."""
    _operations: _Operations = field(default_factory=_Operations)

    def look(self, control: Control, snapshot: Snapshot, seconds: float) -> None:
        """Implements ``events.Sink``."""
        records = self.feed.newest(control, _RECENT if self._operations.recent else None)
        with self._lock:
            self._snapshot, self._seconds, self._at, self._failed = snapshot, seconds, self.clock(), False
            if records is not None:
                self._operations.add(reversed(records))
            self._follow_sources(snapshot)
            flow = snapshot.observation.flow
            if flow.completions:
                weight = max(1.0, flow.done / len(flow.completions))  # of very many, some stand for all
                for one in flow.completions:
                    if one.claimed_at is not None:
                        self._worked.add(max(0.0, one.gone_at - one.claimed_at), weight)
                        if one.put_at is not None:
                            self._waited.add(max(0.0, one.claimed_at - one.put_at), weight)

    def failed(self, why: str, at: float) -> None:
        """Implements ``events.Sink``."""
        with self._lock:
            self._failed = True

    @property
    def seen(self) -> bool:
        """True once there was a look."""
        return self._snapshot is not None

    def samples(self) -> Iterator[_Sample]:
        """Yields the name of a metric of ``_FAMILIES``, the labels besides ``target``, and the value; of a histogram the values
        of its buckets and their sum."""
        with self._lock:
            snapshot = self._snapshot
            stale = self._failed or snapshot is None or self.clock() - self._at > max(_STALE, 3 * self._seconds)
            yield "scan_complete", (), float(snapshot is not None and snapshot.observation.complete and not stale)
            if snapshot is None:
                return
            yield "scan_timestamp_seconds", (), self._at
            yield "scan_seconds", (), self._seconds
            yield from self._of_messages(snapshot.observation)
            yield from self._of_cursors()
            found = Counter(problem.code for problem in snapshot.problems)
            for code in CODES:
                yield "problems", (code,), found[code]
            for labels, many in sorted(self._operations.counts.items()):
                yield "operations", labels, many
            yield "wait_seconds", (), *self._waited.values()
            yield "processing_seconds", (), *self._worked.values()

    def _of_messages(self, observation: Observation) -> Iterator[_Sample]:
        for box, state in observation.boxes.items():
            if state.count is not None:
                yield "messages", (box,), state.count
            if state.oldest_at is not None:
                yield "oldest_age_seconds", (box,), max(0.0, observation.taken_at - state.oldest_at)
        if observation.judges_claims:
            counts = observation.counts
            yield "claims", ("alive",), counts.alive
            if observation.proves_death:
                yield "claims", ("dead",), counts.dead
            yield "claims", ("unknown",), counts.unknown
            yield "paused", (), float(observation.paused is not None)
        if observation.ages is not None:
            ages = observation.ages
            scale = ages.of / ages.looked_at if ages.looked_at else 1.0  # up, where only a sample was looked at
            for place, bound in enumerate(ages.bounds, 1):
                yield "messages_older_than", (Box.NEW, f"{bound:g}"), float(round(sum(ages.counts[place:]) * scale))
        if observation.disk is not None and observation.disk.bytes_free is not None:
            yield "disk_free_bytes", (), observation.disk.bytes_free
        yield "lock_timeouts", (), observation.lock_timeouts
        for source, many in self._by_source(observation.suppressed).items():
            yield "duplicates_suppressed", (source,), many

    def _by_source(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        named = {escape(source): many for source, many in counts.items()}
        first = dict(islice(named.items(), _MOST_SOURCES))
        rest = sum(named.values()) - sum(first.values())
        return {**first, OTHER: first.get(OTHER, 0) + rest} if rest else first

    def _follow_sources(self, snapshot: Snapshot) -> None:
        now = snapshot.taken_at
        for key, cursor in cursors_by_key(snapshot.cursors).items():
            before, _ = self._sources.get(key, (cursor, now))
            cursor = cursor.replace(reverts=max(cursor.reverts, before.reverts))
            self._sources[key] = cursor, now  # at its place, so that labels stay
        for key in [key for key, (_, at) in self._sources.items() if now - at > _KEPT]:
            del self._sources[key]

    def _of_cursors(self) -> Iterator[_Sample]:
        sources = ((key, one) for key, (one, _) in self._sources.items())
        groups = [(key, [one]) for key, one in islice(sources, _MOST_SOURCES)]
        if others := [one for _, one in sources]:
            groups.append((OTHER, others))
        for key, some in groups:
            for verdict in VERDICTS:
                yield "cursor_verdict", (key, verdict), sum(one.verdict == verdict for one in some)
            yield "cursor_reverts", (key,), sum(one.reverts for one in some)
            if some is not others and (value := _number(some[0])) is not None:
                yield "cursor_value", (key,), value
        yield "cursor_sources_left_out", (), len(others)


_FAMILIES: Mapping[str, tuple[Any, ...]] = {
    "messages": (GaugeMetricFamily, "Messages in a box.", "box"),
    "oldest_age_seconds": (GaugeMetricFamily, "Age of the oldest message in a box.", "box"),
    "claims": (GaugeMetricFamily, "Claims by what is known of their holder.", "verdict"),
    "messages_older_than": (GaugeMetricFamily, "Messages that wait for longer than so many seconds.", "box", "seconds"),
    "paused": (GaugeMetricFamily, "1 while consumers claim nothing because the spool is paused, else 0."),
    "wait_seconds": (HistogramMetricFamily, "Time from the put to the claim, of the messages that were seen to end."),
    "processing_seconds": (HistogramMetricFamily, "Time from the claim to the end, of the messages that were seen to end."),
    "cursor_verdict": (GaugeMetricFamily, "1 for the verdict on a source's cursor, else 0.", "source", "verdict"),
    "cursor_value": (GaugeMetricFamily, "The cursor of a source, where it is a number.", "source"),
    "cursor_reverts": (CounterMetricFamily, "Lost updates of a source's cursor that were seen.", "source"),
    "cursor_sources_left_out": (
        GaugeMetricFamily, f"Sources that are counted under source={OTHER!r}: past the first {_MOST_SOURCES}.",
    ),
    "lock_timeouts": (CounterMetricFamily, "Waits for the spool's own locks that timed out."),
    "duplicates_suppressed": (CounterMetricFamily, "Puts of a message that existed already.", "source"),
    "operations": (CounterMetricFamily, "Items of operators' operations by outcome.", "action", "outcome"),
    "problems": (GaugeMetricFamily, "Lines of the list of problems with this code.", "code"),
    "scan_seconds": (GaugeMetricFamily, "Time that the last look took."),
    "scan_complete": (GaugeMetricFamily, "1 if the last look saw all and is not old, 0 if the target cannot be looked at."),
    "scan_timestamp_seconds": (GaugeMetricFamily, "Time of the last look (epoch)."),
    "disk_free_bytes": (GaugeMetricFamily, "Free space for the user that looks."),
}  # fmt: skip
"""Metrics by name, which ends in the unit if there is one: type, help, and the labels besides ``target``."""


_UNITS = ("seconds", "bytes")


class Metrics(Collector):
    """All metrics of some targets. ``registry`` holds nothing else."""

    def __init__(self, targets: Iterable[TargetMetrics]) -> None:
        self.targets = list(targets)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        families = {
            name: kind(f"spooltop_{name}", help, labels=("target", *labels), unit=unit if unit in _UNITS else "")
            for name, (kind, help, *labels) in _FAMILIES.items()
            for unit in [name.rpartition("_")[2]]
        }
        for target in self.targets:
            for name, labels, *values in target.samples():
                families[name].add_metric([escape(target.target), *labels], *values)
        return [InfoMetricFamily("spooltop_build", "The version that runs.", {"version": __version__}), *families.values()]


def _number(cursor: Cursor) -> float | None:
    try:
        value = float(cursor.shown)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# A dashboard for Grafana over the metrics: a table of panels, and the JSON form that Grafana imports.

_WIDTH, _HEIGHT = 12, 8
_HERE = '{target=~"$target"}'
_OVER = "[$__rate_interval]"
_SOURCE: Json = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
_TARGETS: Json = {
    "name": "target", "label": "Target", "type": "query", "datasource": _SOURCE, "refresh": 2, "sort": 1,
    "query": {"query": "label_values(spooltop_scan_complete, target)", "refId": "target"}, "includeAll": True, "multi": True,
    "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
}  # fmt: skip
"""The choice of targets."""


def _quantiles(metric: str) -> Mapping[str, str]:
    summed = f"sum by (le, target) (rate({metric}{_HERE}{_OVER}))"
    return {f"histogram_quantile({share}, {summed})": f"{{{{target}}}} p{share * 100:.0f}" for share in (0.5, 0.99)}


_PANELS = (
    (
        "Problems", "Lines of the list of problems, by code. Nothing is drawn where there are none.", "none",
        {f"spooltop_problems{_HERE} > 0": "{{target}} {{code}}"},
    ),
    (
        "Not looked at completely", "1 where a target cannot be looked at, or the last look is old or not complete.", "none",
        {f"1 - spooltop_scan_complete{_HERE}": "{{target}}"},
    ),
    (
        "Paused", "1 while consumers claim nothing because the spool is paused.", "none",
        {f"spooltop_paused{_HERE}": "{{target}}"},
    ),
    ("Depth", "Messages in new.", "short", {'spooltop_messages{box="new",target=~"$target"}': "{{target}}"}),
    (
        "Oldest message in new", "Its age.", "s",
        {'spooltop_oldest_age_seconds{box="new",target=~"$target"}': "{{target}}"},
    ),
    ("Claims", "By what is known of their holder.", "short", {f"spooltop_claims{_HERE}": "{{target}} {{verdict}}"}),
    (
        "Messages in the other boxes", "tmp, held, rejected, trash.", "short",
        {'spooltop_messages{box!~"new|cur",target=~"$target"}': "{{target}} {{box}}"},
    ),
    ("Waiting", "Time from the put to the claim.", "s", _quantiles("spooltop_wait_seconds_bucket")),
    ("Processing", "Time from the claim to the end.", "s", _quantiles("spooltop_processing_seconds_bucket")),
    ("Done", "Messages a second.", "ops", {f"rate(spooltop_processing_seconds_count{_HERE}{_OVER})": "{{target}}"}),
    (
        "Lost cursor updates", "Of each source.", "short",
        {f"increase(spooltop_cursor_reverts_total{_HERE}{_OVER})": "{{target}} {{source}}"},
    ),
    (
        "Cursors that do not advance", "Sources whose cursor is neither advancing nor idle.", "none",
        {'spooltop_cursor_verdict{verdict!~"advancing|idle|new",target=~"$target"} > 0': "{{target}} {{source}} {{verdict}}"},
    ),
    (
        "Operations", "Items that operators moved, by outcome.", "short",
        {f"increase(spooltop_operations_total{_HERE}{_OVER})": "{{target}} {{action}} {{outcome}}"},
    ),
    ("Free disk space", "For the user that looks.", "bytes", {f"spooltop_disk_free_bytes{_HERE}": "{{target}}"}),
    ("Time of a look", "How long the last one took.", "s", {f"spooltop_scan_seconds{_HERE}": "{{target}}"}),
)  # fmt: skip


def dashboard() -> dict[str, Json]:
    """The dashboard as Grafana imports it; it asks for the Prometheus that it shows."""
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}],
        "title": "spooltop",
        "uid": "spooltop",
        "tags": ["spooltop"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_TARGETS]},
        "panels": [_panel(place, *one) for place, one in enumerate(_PANELS)],
    }


def _panel(place: int, title: str, help: str, unit: str, queries: Mapping[str, str]) -> dict[str, Json]:
    """A graph: its title, what stands below it in the help, its unit, and queries with the legend of each."""
    row, column = divmod(place, 2)
    return {
        "id": place + 1, "type": "timeseries", "title": title, "description": help, "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(queries.items())
        ],
    }  # fmt: skip


# The command.

_LOOPBACK = "127.0.0.1"
_IDLE = 10.0
"""Seconds after which a connection on which nothing comes is closed: a scrape is one request, sent at once."""


def metrics(args: Arguments) -> int:
    """Without ``--listen`` and ``--textfile``, looks once at each target and prints."""
    if args.grafana:
        args.terminal.out(dumps(dashboard()))
        return 0
    if args.listen is not None and args.textfile is not None:
        raise UsageError("--listen and --textfile together", "run one for each")
    targets = {name: TargetMetrics(name) for name in targets_of(args)}
    found = Metrics(targets.values())
    if args.listen is None and args.textfile is None:
        return _once(args, targets, found)
    every = parse_age(args.every)
    if every < 1:
        raise UsageError(f"--every {args.every} is under a second", "as in --every 15s")
    watching = Watching(targets, partial(args.control, watch=True))
    watching.require_one()
    with signals_to(watching.stop), watching:
        if args.listen is not None:
            _serve(found, *address(args.listen), watching, args)
        else:
            _write_again_and_again(found, args.textfile, every, watching)
    return 0


def address(text: str) -> tuple[str, int]:
    """Parses ``HOST:PORT``, ``[IPv6]:PORT`` or ``PORT``; without a host it is the loopback. Raises ``UsageError``.

    >>> [address(text) for text in ("9923", ":9923", "0.0.0.0:9923", "[::1]:9923")]
    [('127.0.0.1', 9923), ('127.0.0.1', 9923), ('0.0.0.0', 9923), ('::1', 9923)]
    """
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host[:1] + host[-1:] == "[]" else host
    if not (port.isascii() and port.isdigit() and int(port) <= 65535) or set(bare) & set("[]") or (":" in bare and bare == host):
        raise UsageError(f"--listen {text}: no address", "as in --listen 127.0.0.1:9923")
    return bare or _LOOPBACK, int(port)


def _once(args: Arguments, targets: dict[str, TargetMetrics], found: Metrics) -> int:
    def look(looking: Arguments, name: str) -> bool:
        began = time.monotonic()
        with looking.control(name) as control:
            targets[name].look(control, control.look(), time.monotonic() - began)
        return True

    code = 0
    for target, error in zip(targets.values(), look_each(args, list(targets), look), strict=True):
        if isinstance(error, SpooltopError):
            code = Unreadable.exit_code
            target.failed(str(error), time.time())
            args.terminal.error(str(error))
    args.terminal.out(generate_latest(found.registry).decode().rstrip("\n"))
    return code


def close_idle(server: WSGIServer) -> None:
    """Closes connections on which nothing comes for ``_IDLE`` seconds, instead of keeping a thread for each for ever."""

    class Handler(server.RequestHandlerClass):  # type: ignore[name-defined, misc]  # that of prometheus_client, which logs nothing
        timeout = _IDLE

        def handle(self) -> None:
            try:
                super().handle()
            except TimeoutError:
                self.close_connection = True

    server.RequestHandlerClass = Handler


def _serve(found: Metrics, host: str, port: int, watching: Watching, args: Arguments) -> None:
    try:
        server, thread = start_http_server(port, addr=host, registry=found.registry)
    except OSError as error:
        raise Unreadable(f"cannot listen on {host}:{port}: {error.strerror or error}", "choose another port") from None
    close_idle(server)
    try:
        where = f"[{host}]" if ":" in host else host
        args.terminal.err(f"spooltop: serving http://{where}:{server.server_port}/metrics until it is stopped")
        watching.wait()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _write_again_and_again(found: Metrics, path: str, every: float, watching: Watching) -> None:
    while not watching.wait(min(every, 1.0) if not all(target.seen for target in found.targets) else every):
        try:
            write_to_textfile(path, found.registry)
        except OSError as error:
            raise Unreadable(f"cannot be written: {error.strerror or error}", "choose another file", path=path) from None
