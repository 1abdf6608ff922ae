"""``metrics``: values for Prometheus, once, into a file again and again, or over HTTP."""

from __future__ import annotations

import math
import signal
import time
from argparse import Namespace
from functools import partial
from wsgiref.simple_server import WSGIServer

from msgspec.structs import replace

from spooltop.errors import DoesNotAnswer, SpooltopError, Unreadable, UsageError
from spooltop.model.units import parse_age
from spooltop.monitor.metrics import Metrics, TargetMetrics, dashboard
from spooltop.monitor.watching import Watching
from spooltop.run_each import run_each

from ..context import PATIENCE, Context, targets_of
from ..terminal import dumps, signals_to

_LOOPBACK = "127.0.0.1"
_IDLE = 10.0
"""Seconds after which a connection on which nothing comes is closed: a scrape is one request, sent at once."""


def metrics(args: Namespace, context: Context) -> int:
    """Without ``--listen`` and ``--textfile``, looks once at each target and prints."""
    if args.grafana:
        context.terminal.out(dumps(dashboard()))
        return 0
    if args.listen is not None and args.textfile is not None:
        raise UsageError("--listen and --textfile together", advice="run one for each")
    targets = {name: TargetMetrics(name) for name in targets_of(args, context)}
    found = Metrics(targets.values())
    if args.listen is None and args.textfile is None:
        return _once(args, context, targets, found)
    every = parse_age(args.every)
    if every < 1:
        raise UsageError(f"--every {args.every} is under a second", advice="as in --every 15s")
    watching = Watching(targets, partial(context.control, args, watch=True))
    watching.require_one()
    with signals_to(lambda number: watching.stop(), signal.SIGTERM, signal.SIGINT), watching:
        if args.listen is not None:
            _serve(found, *address(args.listen), watching, context)
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
        raise UsageError(f"--listen {text}: no address", advice="as in --listen 127.0.0.1:9923")
    return bare or _LOOPBACK, int(port)


def _once(args: Namespace, context: Context, targets: dict[str, TargetMetrics], found: Metrics) -> int:
    from prometheus_client import generate_latest

    looking = replace(context, patience=math.inf)  # each is left behind by itself

    def look(name: str) -> str:
        """Looks at a target; returns why that failed, "" if it did not."""
        began = time.monotonic()
        try:
            with looking.control(args, name) as control:
                targets[name].look(control, control.look(), time.monotonic() - began)
        except SpooltopError as error:
            return str(error)
        return ""

    errors = [
        str(DoesNotAnswer("looking at it", PATIENCE, path=name)) if error is None else error
        for name, error in zip(targets, run_each(list(targets), look, PATIENCE), strict=True)
    ]
    for target, error in zip(targets.values(), errors, strict=True):
        if error:
            target.failed(error, time.time())
            context.terminal.error(error)
    context.terminal.out(generate_latest(found.registry).decode().rstrip("\n"))
    return Unreadable.exit_code if any(errors) else 0


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


def _serve(found: Metrics, host: str, port: int, watching: Watching, context: Context) -> None:
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, addr=host, registry=found.registry)
    except OSError as error:
        raise Unreadable(f"cannot listen on {host}:{port}: {error.strerror or error}", advice="choose another port") from None
    close_idle(server)
    try:
        where = f"[{host}]" if ":" in host else host
        context.terminal.err(f"spooltop: serving http://{where}:{server.server_port}/metrics until it is stopped")
        watching.wait()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _write_again_and_again(found: Metrics, path: str, every: float, watching: Watching) -> None:
    from prometheus_client import write_to_textfile

    while not watching.wait(min(every, 1.0) if not all(target.seen for target in found.targets) else every):
        try:
            write_to_textfile(path, found.registry)
        except OSError as error:
            raise Unreadable(f"cannot be written: {error.strerror or error}", path=path, advice="choose another file") from None
