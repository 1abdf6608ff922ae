"""The frozen surface of ``Control``: front ends, scripts and tests rely on each name, parameter, default and type here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from spooltop import control
from spooltop.control import Control, open_control

SURFACE = """
open_control(
    path: str,
    *,
    read_only: bool = False,
    as_kind: str = '',
    watch: bool = True,
    clock: Callable[[], float] = …,
    settings: Mapping[str, str] | None = None,
    poll_logs: Sequence[str] = (),
    who_writes: bool = False,
    cursor_files: Sequence[str] = (),
    syslog: bool = False,
    redis_tickets: Sequence[str] = (),
    locks: bool = False,
    owners: bool = True,
    patience: float = …
) -> Control
__enter__() -> Control
__exit__(kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None
apply(plan: Plan, on_progress: Callable[[int], None] | None = None, stop: Callable[[], bool] | None = None) -> Result
audit(operation: str) -> AuditTrail
changes(timeout: float) -> bool
close() -> None
consumers() -> ConsumerList
current_step() -> str
follow(ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]
has_changed() -> bool
holders(key: Key) -> Holders
keep_view(kept: KeptView) -> bool
kept_view() -> KeptView
listing(query: ListQuery, cancelled: Callable[[], bool] = …, progress: ListProgress | None = None) -> Listing
look(rescan: bool = False) -> Snapshot
mute(source: str, seconds: float) -> float
now() -> float
operations(stop: Callable[[], bool] | None = None, *, begins: str = '', most: int | None = None) -> list[OperationRecord]
plan(
    action: Action,
    selection: Selection,
    *,
    force: bool = False,
    options: Mapping[str, Json] | None = None,
    on_progress: Callable[[str], object] | None = None,
    on_first: Callable[[Sequence[Item]], object] | None = None,
    stop: Callable[[], bool] | None = None
) -> Plan
read(key: Key, limit: int = 65536) -> Payload
save(key: Key, path: str) -> tuple[str, int]
trash_retention: float
unmute(source: str) -> bool
wake() -> None
watch(seconds: float, monotonic: Callable[[], float] = …) -> Snapshot
why_read_only: str | None
with_rate(plan: Plan, rate: float | None) -> Plan
"""


def signature_text(name: str, function: Callable[..., object]) -> str:
    """Returns ``look(rescan: bool = False) -> Snapshot``; a default that is a function or infinite is written as ``…``,
    and a signature that is too long in a line for each parameter."""
    signature = inspect.signature(function)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", name + str(signature.replace(parameters=parameters)))
    text = re.sub(r"= (<built-in [^>]*>|<function .*? at \w+>|inf)", "= …", text)
    if len(text) <= 130:
        return text
    inside, _, returned = text.removeprefix(f"{name}(").rpartition(")")
    return f"{name}(\n    " + ",\n    ".join(re.split(r", (?=\w+: |\*)", inside)) + f"\n){returned}"


def surface() -> list[str]:
    """One entry for each public member of ``Control``, in the order of their names, and one for ``open_control``."""
    lines = [signature_text("open_control", open_control)]
    for name, member in sorted(vars(Control).items()):
        if isinstance(member, property):
            assert member.fget is not None
            lines.append(f"{name}: {inspect.signature(member.fget).return_annotation}")
        elif not name.startswith("_") or name in ("__enter__", "__exit__"):
            lines.append(signature_text(name, member))
    return lines


def test_the_public_members_of_control_have_their_frozen_signatures() -> None:
    assert "\n".join(surface()) == SURFACE.strip()


def test_the_module_exports_control_and_open_control() -> None:
    assert control.__all__ == ["Control", "open_control"]
