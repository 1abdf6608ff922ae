"""Plans are done by ``--yes`` where it is proved that nobody holds their items; the rest wants its number, or force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spooltop.model.vocabulary import Box
from tests.desk import Desk, new_desk

from .streams import Done, spooltop

UNKNOWN, DEAD = 2, 1
ALL = UNKNOWN + DEAD
REFUSED = (
    f"nothing done: it is unknown who holds {UNKNOWN} of {ALL}; look at them, then give the number of the plan with --yes=N, or "
    "add --force"
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Two claims whose pid no process can have, and one of a dead consumer."""
    desk = new_desk(tmp_path)
    for number in range(UNKNOWN):
        desk.put(f"job{number}:2,P0", box=Box.CUR)
    desk.claim_and_die_here(desk.put(desk.id(1)))
    return desk


def run(desk: Desk, action: str, *words: str, **more: object) -> Done:
    return spooltop(action, desk.path, *words, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("action", ["requeue", "hold", "purge"])
def test_yes_alone_is_refused_where_a_holder_is_unknown(desk: Desk, action: str) -> None:
    done = run(desk, action, "--box", "cur", "ALL", "--yes")
    assert (done.code, done.err) == (3, f"spooltop: {action}: {REFUSED}\n")
    assert len(desk.names(Box.CUR)) == ALL
    assert not list(desk.path.glob(".spooltop/journal*"))


@pytest.mark.parametrize("words", [[f"--yes={ALL}"], ["--yes", f"--yes={ALL}"], ["--yes", "--force"]])
def test_the_number_or_force_does_it_and_yes_alone_undoes_it(desk: Desk, words: list[str]) -> None:
    before = desk.names(Box.CUR)
    done = run(desk, "requeue", "ALL", *words, "--json")
    assert (done.code, desk.names(Box.CUR)) == (0, []), done.err
    assert spooltop(*json.loads(done.out)["undo"][1:], "--yes").code == 0
    assert desk.names(Box.CUR) == before


@pytest.mark.parametrize("words", [["--yes=0"], [f"--yes={ALL - 1}"], [f"--yes={10**30}"], [f"--yes={ALL + 1}", "--force"]])
def test_another_number_than_the_plans_is_refused(desk: Desk, words: list[str]) -> None:
    done = run(desk, "requeue", "ALL", *words)
    assert (done.code, desk.names(Box.NEW)) == (3, [])
    count = f"{int(words[0].removeprefix('--yes=')):,}"
    assert done.err == f"spooltop: requeue: nothing done: {count} confirmed, and the plan has 3; look at the plan again\n"


@pytest.mark.parametrize(("typed", "code"), [("Y", 3), ("2", 3), ("3", 0)])
def test_on_a_terminal_the_number_is_typed(desk: Desk, typed: str, code: int) -> None:
    assert run(desk, "requeue", "ALL", stdin=f"{typed}\n".encode(), tty=True).code == code
    assert len(desk.names(Box.NEW)) == (0 if code else ALL)


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["-"], b'{"id": "job0", "box": "cur"}\njob1\n'),
        (["--filter", "verdict:unknown"], b""),
        (["--verdict", "unknown"], b""),
        (["job0", "job1"], b""),
    ],
)
def test_every_way_to_select_asks_the_same(desk: Desk, words: list[str], stdin: bytes) -> None:
    done = run(desk, "requeue", *words, "--yes", "--json", stdin=stdin)
    assert (done.code, "it is unknown who holds 2 of 2" in done.err, len(done.err.splitlines())) == (3, True, 1)
    refused = json.loads(done.out)
    assert (refused["count"], [item["id"] for item in refused["items"]], "done" in refused) == (2, ["job0", "job1"], False)
    done = run(desk, "requeue", *words, "--yes=2", "--json", stdin=stdin)
    assert (done.code, json.loads(done.out)["done"], desk.names(Box.NEW)) == (0, 2, ["job0", "job1"])


def test_the_count_is_no_id_and_no_word_behind_it_is_the_count(desk: Desk) -> None:
    assert run(desk, "requeue", "--yes", "job0").code == 3
    assert run(desk, "requeue", "--yes=1", "job0").code == 0
    desk.put("7")
    assert run(desk, "purge", "--box", "new", "--yes", "7").code == 0


@pytest.mark.parametrize(("words", "count"), [(["pause"], 1), (["inject", "--count", "2"], 2), (["move"], 1)])
def test_what_has_no_holders_takes_its_number_too(tmp_path: Path, words: list[str], count: int) -> None:
    desk, other = new_desk(tmp_path / "a"), new_desk(tmp_path / "b")
    desk.put("one")
    more = [str(other.path)] if words == ["move"] else words[1:]
    assert run(desk, words[0], *more, f"--yes={count + 1}").code == 3
    assert run(desk, words[0], *more, f"--yes={count}").code == 0
