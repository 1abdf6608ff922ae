"""The checker of histories finds what it is there for, and nothing in a history in which all is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from .history import Found, body, check, uid_of

PUT = {"producer-1.": ["1 P? m", "2 P! m id-m", "3 END"]}


def judged(folder: Path, files: dict[str, list[str]], standing: tuple[str, ...] = (), *, drained: bool = True) -> Found:
    for actor, lines in files.items():
        (folder / actor).write_text("".join(f"{line}\n" for line in lines))
    return check(folder, standing, drained=drained)


def consumer(*lines: str) -> list[str]:
    return [*lines, "90 END"]


ACKED = consumer("10 C?", "11 B 1 m id-m 1 t.1", "20 A? 1", "21 A! 1")
HELD = ["10 C?", "11 B 1 m id-m 1 t.1"]
SECOND = consumer("40 C?", "41 B 1 m id-m 2 u.1", "50 A? 1", "51 A! 1")
KILLED = {"killer": ["32 K consumer-1. 30", "99 END"]}

CUT = {**PUT, **KILLED, "consumer-1.": [*HELD, "20 A? 1"]}

WELL = {
    "acked": {**PUT, "consumer-1.": ACKED},
    "killed while it held it": {**PUT, **KILLED, "consumer-1.": HELD, "consumer-2.": SECOND},
    "killed between the ack and its line": {**PUT, **KILLED, "consumer-1.": [*HELD, "20 A? 1"]},
    "killed before it wrote down its claim": {**PUT, **KILLED, "consumer-1.": ["10 C?"], "consumer-2.": SECOND},
    "killed before the put was written down": {
        "producer-1.": ["1 P? m"], "killer": ["9 K producer-1. 8", "99 END"], "consumer-1.": ACKED,
    },
    "killed in an ack, given out again, acked": {**CUT, "consumer-2.": SECOND},
    "released": {**PUT, "consumer-1.": consumer(*HELD, "20 R? 1", "21 R! 1"), "consumer-2.": SECOND},
    "forced": {
        **PUT, "operator-1.": ["25 F? t.1", "26 F! t.1", "27 END"],
        "consumer-1.": consumer(*HELD, "60 A? 1", "61 L 1"), "consumer-2.": SECOND,
    },
    "forced by one who was killed": {
        **PUT, "operator-1.": ["25 F? t.1"], "killer": ["27 K operator-1. 26", "99 END"],
        "consumer-1.": consumer(*HELD, "60 A? 1", "61 L 1"), "consumer-2.": SECOND,
    },
    "lost to force before it could be read": {
        **PUT, "operator-1.": ["12 F? t.1", "13 F! t.1", "27 END"],
        "consumer-1.": consumer("10 C?", "11 B 1 - id-m 1 t.1", "14 L 1"), "consumer-2.": SECOND,
    },
    "requeued from the dead": {
        **PUT, **KILLED, "operator-1.": ["35 Q? t.1", "36 Q! t.1", "37 END"], "consumer-1.": HELD, "consumer-2.": SECOND,
    },
}  # fmt: skip

UNCONFIRMED = {"producer-1.": ["1 P? m"], "killer": ["9 K producer-1. 8", "32 K consumer-1. 30", "99 END"]}

WRONG: dict[str, tuple[dict[str, list[str]], tuple[str, ...], str]] = {
    "lost": (PUT, (), "m is lost"),
    "lost by the one who had it after an ack that was cut off": (
        {**CUT, "consumer-2.": consumer("40 C?", "41 B 1 m id-m 2 u.1", "50 R? 1", "51 R! 1")}, (), "m is lost",
    ),
    "lost by one who was killed while it held it, after an ack that was cut off": (
        {
            **CUT, "killer": ["32 K consumer-1. 30", "62 K consumer-2. 60", "99 END"],
            "consumer-2.": ["40 C?", "41 B 1 m id-m 2 u.1"],
        },
        (), "m is lost",
    ),
    "lost after its delivery, which its producer was killed before it heard of": (
        {**UNCONFIRMED, "consumer-1.": HELD}, (), "m is lost",
    ),
    "left": (PUT, ("m",), "m is left over"),
    "from nowhere": ({"consumer-1.": ACKED}, (), "m was never put"),
    "again after its ack": ({**PUT, "consumer-1.": ACKED}, ("m",), "m was acked and is there again"),
    "given out after its ack": ({**PUT, "consumer-1.": ACKED, "consumer-2.": SECOND}, (), "m was acked and is there again"),
    "two at once": (
        {**PUT, **KILLED, "consumer-1.": HELD, "consumer-2.": consumer("20 C?", "21 B 1 m id-m 2 u.1", "50 A? 1", "51 A! 1")},
        (), "m was held by consumer-1. and consumer-2. at once",
    ),
    "two at once, forced later": (
        {
            **PUT, "operator-1.": ["55 F? t.1", "56 F! t.1", "57 END"],
            "consumer-1.": consumer(*HELD, "60 A? 1", "61 L 1"), "consumer-2.": SECOND,
        },
        (), "m was held by consumer-1. and consumer-2. at once",
    ),
    "taken, and nobody forced it": (
        {**PUT, "consumer-1.": consumer(*HELD, "60 A? 1", "61 L 1"), "consumer-2.": SECOND}, (),
        "m was taken from consumer-1., which lived, and nobody forced it",
    ),
    "requeued from the living": (
        {**PUT, "operator-1.": ["15 Q? t.1", "16 Q! t.1", "17 END"], "consumer-1.": consumer(*HELD, "20 A? 1", "21 L 1")},
        ("m",), "m was requeued from consumer-1., which lived",
    ),
    "a second id": (
        {**PUT, "consumer-1.": consumer("10 C?", "11 B 1 m id-x 1 t.1", "20 A? 1", "21 A! 1")}, (), "m has two ids",
    ),
    "an attempt that nobody made": (
        {**PUT, "consumer-1.": consumer("10 C?", "11 B 1 m id-m 2 t.1", "20 A? 1", "21 A! 1")}, (), "1 claims were made",
    ),
    "an attempt that was not counted": (
        {**PUT, **KILLED, "consumer-1.": HELD, "consumer-2.": consumer("40 C?", "41 B 1 m id-m 1 u.1", "50 A? 1", "51 A! 1")},
        (), "m came again as attempt 1 after 1",
    ),
    "an actor that fell over": ({**PUT, "consumer-1.": ["10 C?", "11 X Traceback"]}, ("m",), "consumer-1.: Traceback"),
    "an actor that went away": ({**PUT, "consumer-1.": HELD}, ("m",), "consumer-1. ended and nobody killed it"),
}  # fmt: skip


@pytest.mark.parametrize("case", WELL)
def test_nothing_is_wrong_where_all_is_explained(case: str, tmp_path: Path) -> None:
    assert judged(tmp_path, WELL[case]).wrong == []


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_found(case: str, tmp_path: Path) -> None:
    files, standing, words = WRONG[case]
    assert any(words in message for message in judged(tmp_path, files, standing).wrong)


REJECTED = consumer(*HELD, "20 J? 1", "21 J! 1")
AGAIN = consumer("40 C?", "41 B 1 m id-m 1 u.1", "50 A? 1", "51 A! 1")
REDRIVEN = {**PUT, "operator-1.": ["30 N id-m", "31 Q?", "32 Q!", "33 O requeue 1 0", "34 END"]}


def test_what_is_set_aside_may_stand_there_where_nothing_was_drained(tmp_path: Path) -> None:
    found = judged(tmp_path, {**PUT, "consumer-1.": REJECTED}, ("m",), drained=False)
    assert found.wrong == []


def test_what_was_rejected_begins_anew_where_an_operator_said_so(tmp_path: Path) -> None:
    found = judged(tmp_path, {**REDRIVEN, "consumer-1.": REJECTED, "consumer-2.": AGAIN}, drained=False)
    assert (found.wrong, +found.redelivered, found.operated["requeue"]) == ([], {"a redrive": 1}, 1)


@pytest.mark.parametrize(
    ("files", "standing", "words"),
    [
        ({"consumer-1.": REJECTED}, (), "m is lost"),
        ({"consumer-1.": REJECTED}, ("m", "m"), "m is there 2 times"),
        ({"consumer-1.": ACKED}, ("m",), "m was acked and is there again"),
        ({"consumer-1.": REJECTED, "consumer-2.": AGAIN}, (), "m came again to consumer-2., and nothing explains it"),
    ],
)
def test_what_is_wrong_where_nothing_was_drained(
    files: dict[str, list[str]], standing: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    assert any(words in message for message in judged(tmp_path, {**PUT, **files}, standing, drained=False).wrong)


def test_redeliveries_are_counted_by_what_explains_them(tmp_path: Path) -> None:
    found = judged(tmp_path, WELL["forced"])
    assert (found.messages, found.kills, dict(+found.redelivered)) == (1, 0, {"a force": 1})


def test_a_part_of_a_message_is_known_for_one() -> None:
    assert uid_of(body("p3.17")) == "p3.17"
    assert {uid_of(body("p3.17")[:length]) for length in range(len(body("p3.17")))} == {None}
