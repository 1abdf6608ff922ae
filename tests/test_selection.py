"""The tests that a run takes, and their order: long ones only where they are asked for, early ones first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from .conftest import early_first, is_left_out
from .needs import is_root_missing, missing_things, summary

ROOT = Path(__file__).parents[1]


def item(name: str, *marks: str) -> Any:
    path = "tests/test_a.py"
    return SimpleNamespace(nodeid=f"{path}::{name}", path=ROOT / path, get_closest_marker=lambda mark: mark in marks)


def config(*args: str, every: bool = False, expression: str = "", folder: Path = ROOT) -> Any:
    options = {"--all": every, "-m": expression}
    return SimpleNamespace(args=args, invocation_params=SimpleNamespace(dir=folder), getoption=options.__getitem__)


def names(items: list[Any]) -> list[str]:
    return [one.nodeid.partition("::")[2] for one in items]


@pytest.mark.parametrize(
    ("asked", "out"),
    [
        (config("tests"), ["whole[0/1]", "other"]),
        (config("tests/test_a.py"), []),
        (config("tests/test_a.py::whole"), ["other"]),
        (config("test_a.py::whole[0/1]", folder=ROOT / "tests"), ["other"]),
        (config("tests/test_b.py::whole"), ["whole[0/1]", "other"]),
        (config(f"{ROOT}/tests/test_a.py::other"), ["whole[0/1]"]),
        (config("tests", every=True), []),
        (config("tests", expression="programs"), ["whole[0/1]", "other"]),
        (config("tests", expression="long"), []),
        (config("tests", expression="early"), ["whole[0/1]", "other"]),
    ],
)
def test_a_long_test_runs_where_it_is_asked_for(asked: Any, out: list[str]) -> None:
    items = [item("quick"), item("whole[0/1]", "long"), item("other", "long", "early")]
    assert names([one for one in items if is_left_out(one, asked)]) == out
    beside = item("beside", "programs", "long")
    assert is_left_out(beside, config("tests", expression="long")) and not is_left_out(beside, config(expression="programs"))


def test_early_tests_begin_the_share_of_each_worker() -> None:
    items = [item(str(number), *(["early"] if number > 5 else [])) for number in range(11)]
    assert names(early_first(items, 3)) == ["6", "9", "0", "7", "10", "1", "2", "8", "3", "4", "5"]
    assert sorted(map(int, names(early_first(items[6:], 3)))) == [6, 7, 8, 9, 10]


def test_what_needs_root_has_the_mark_that_selects_it_and_each_skip_names_what_is_missing() -> None:
    reasons = ["Skipped: needs root", "Skipped: needs tmux", "Skipped: needs root", "Skipped: no overlay in this kernel"]
    assert missing_things(reasons) == {"root": 2, "tmux": 1, "see above": 1}
    assert [is_root_missing(reason) for reason in reasons] == [True, False, True, False]
    assert summary(reasons) == "skipped for want of: root 2, tmux 1, see above 1 (apt-get install tmux)"
    assert summary([]) == ""
