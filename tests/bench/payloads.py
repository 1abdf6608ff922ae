"""Time to draw text that somebody else wrote: 64 kB of each hostile kind, as a payload, a name, a cursor, a source.

    python -m tests.bench.payloads

The floor is the same amount of plain letters. The result is the processor time of the screen's thread, the least of five, with
nothing kept from before.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from spooltop.cursors.draw import cursor_table
from spooltop.model.vocabulary import Payload
from spooltop.tui.draw.elements import Moment, safe
from spooltop.tui.draw.lists import columns_for, detail, message_lines, row_line
from spooltop.tui.messages import NOT_READ, PayloadRead
from tests.tui.fake import NOW, FakeControl, a_cursor, waiting
from tests.tui.test_sizes import KINDS, SIZE, filled

WIDTH, HEIGHT = 80, 24


def took(draw: Callable[[bytes], object], data: bytes) -> float:
    """Milliseconds of the processor."""
    times = []
    for at in range(5):
        mine = data[:-1] + b"%d" % at  # another text each time: what was drawn before is kept
        began = time.process_time()
        draw(mine)
        times.append(1000 * (time.process_time() - began))
    return min(times)


MOMENT = Moment(NOW)


def name_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def payload(data: bytes) -> object:
    return detail(waiting(1), PayloadRead((), Payload(data, len(data), False)), WIDTH, HEIGHT // 2, moment=MOMENT)


def payload_to_its_end(data: bytes) -> object:
    return message_lines(
        waiting(1), PayloadRead((), Payload(data, len(data), False)), WIDTH, HEIGHT, scroll=1_000_000, moment=MOMENT
    )


def message_name(data: bytes) -> object:
    row = replace(waiting(1), name=name_of(data), id=name_of(data))
    drawn = detail(row, NOT_READ, WIDTH, HEIGHT // 2, moment=MOMENT)
    return drawn, row_line(row, columns_for(row.box, WIDTH), MOMENT)


def source_name(data: bytes) -> object:
    row = replace(waiting(1), source=name_of(data))
    drawn = detail(row, NOT_READ, WIDTH, HEIGHT // 2, moment=MOMENT)
    return drawn, row_line(row, columns_for(row.box, WIDTH), MOMENT)


def cursor_name(data: bytes) -> object:
    control = FakeControl()
    control.cursors = (replace(a_cursor(name_of(data)), shown=safe(name_of(data))),)
    return cursor_table(control.look(), WIDTH, HEIGHT, MOMENT)


WHAT = {
    "payload": payload, "payload to its end": payload_to_its_end, "message name": message_name, "source name": source_name,
    "cursor name": cursor_name,
}  # fmt: skip


def main() -> None:
    print(f"{SIZE // 1024} kB of each, {WIDTH}×{HEIGHT}; ms, and how many times as long as plain letters")
    print("| | " + " | ".join(WHAT) + " |")
    print("|---|" + "---|" * len(WHAT))
    floors = {what: took(draw, filled("letters")) for what, draw in WHAT.items()}
    for kind in KINDS:
        cells = []
        for what, draw in WHAT.items():
            ms = took(draw, filled(kind))
            cells.append(f"{ms:.1f} ({ms / max(floors[what], 0.01):.1f})")
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
