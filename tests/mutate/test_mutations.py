"""The mutations that are tried are changes of meaning, and a fork runs the changed code."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from .__main__ import EQUIVALENT, FIRST, is_of, known_equivalent, named, parses, printed, sampled, sources
from .mutations import mutations
from .reach import Reach

SOURCE = b'''"""The module."""
LIMIT: int = 5

def within(value: "int | None", most: int = 10) -> bool:
    """Its docstring: 1 < 2."""
    if value is None or value < 0:
        raise ValueError(f"{value + 1} is none")
    warn(value > 3)
    return value <= most
'''


def test_each_change_of_meaning_is_found_and_no_other() -> None:
    found = [f"{one.line} {one.kind}: {one.before} -> {one.after}" for one in mutations("x.py", SOURCE)]
    assert sorted(found) == sorted([
        "2 constant: 5 -> 6",
        "4 constant: 10 -> 11",
        "6 boolean: value is None or value < 0 -> ((value is None) and (value < 0))",
        "6 dropped operand: value is None or value < 0 -> ((value < 0))",
        "6 dropped operand: value is None or value < 0 -> ((value is None))",
        "6 negated condition: value is None or value < 0 -> not (value is None or value < 0)",
        "6 comparison: value is None -> value is not None",
        "6 comparison: value < 0 -> value <= 0",
        "6 constant: 0 -> 1",
        '7 dropped statement: raise ValueError(f"{value + 1} is none") -> pass',
        "9 comparison: value <= most -> value < most",
    ])  # fmt: skip
    assert {one.function for one in mutations("x.py", SOURCE) if one.line > 4} == {"within"}


def test_what_is_swapped_may_have_one_type() -> None:
    source = b"""def of(first: int, second: int, name: str) -> None:
    use(first, second), use(first, name), use(a.fd, b.fd), use(a.fd, b.name)
"""
    assert [one.after for one in mutations("x.py", source) if one.kind == "swapped arguments"] == ["second, first", "b.fd, a.fd"]


def test_a_verdict_becomes_another_one() -> None:
    found = [one.after for one in mutations("x.py", b"x = Verdict.DEAD if said == 'alive' else Box.NEW\n")]
    assert {"Verdict.UNKNOWN", "'unknown'", "Box.CUR"} <= set(found)


@pytest.mark.long
@pytest.mark.parametrize("folder", FIRST)
def test_every_mutation_of_a_sample_is_python_that_says_something_else(folder: str) -> None:
    for one in sampled([folder], 20, 3):
        source = dict(sources([one.path]))[one.path]
        assert parses(one)
        assert ast.dump(ast.parse(one.applied(source))) != ast.dump(ast.parse(source)), str(one)


@pytest.mark.long
def test_a_sample_is_the_same_for_the_same_seed() -> None:
    assert sampled(FIRST[:1], 10, 7) == sampled(FIRST[:1], 10, 7) != sampled(FIRST[:1], 10, 8)


def test_the_most_specific_tests_come_first_and_no_more_than_there_is_time_for() -> None:
    functions = {"m.py:f": ["broad", "narrow", "slow"], "m.py:g": ["broad"], "n.py:h": ["broad"]}
    reach = Reach(functions, {"broad": 1.0, "narrow": 1.0, "slow": 90.0})
    assert reach.tests("m.py", "f", 10) == (["narrow", "broad"], 3)
    assert reach.tests("m.py", "f", 1000) == (["narrow", "broad", "slow"], 3)
    assert reach.tests("m.py", "", 10)[1] == 3  # of what runs at import: whoever enters the module
    assert reach.tests("values.py", "", 10)[1] == 3


def test_tests_that_are_measured_again_take_the_place_of_what_was_known_of_them() -> None:
    reach = Reach({"m.py:f": ["old", "kept"], "m.py:g": ["old"]}, {"old": 1.0, "kept": 1.0})
    reach.add(Reach({"m.py:g": ["old"], "m.py:h": ["old"]}, {"old": 2.0}))
    assert reach.functions == {"m.py:f": ["kept"], "m.py:g": ["old"], "m.py:h": ["old"]}
    assert reach.seconds == {"old": 2.0, "kept": 1.0}


def test_what_a_run_printed_can_be_tried_again() -> None:
    chosen = sampled(FIRST[:1], 5, 9)
    output = "".join(f"survived: {one}  [3 of 4 tests]\n" for one in chosen)
    assert {named(one) for one in printed(output)} == {named(one) for one in chosen}


def test_the_mutations_that_leaving_tests_notice_can_be_tried_again() -> None:
    first, second = sampled(FIRST[:1], 2, 9)
    output = f"t.py: notices 2\nnotices: {first}  [1 of 1 tests] t.py::a; it: t.py::b\nonly by it: {second}  [0 of 0 tests]\n"
    # As text: where a line has the same change twice, what was printed names the first.
    assert [str(one) for one in printed(output * 2)] == [str(first), str(second)]


def test_tests_are_chosen_by_file_folder_or_name() -> None:
    tests = ["tests/tui/test_keys.py::test_help[80]", "tests/tui/test_keys.py::test_quit", "tests/cli/test_keys.py::test_help"]
    reach = Reach({"m.py:f": tests[:2], "n.py:g": tests[2:]}, dict.fromkeys(tests, 1.0))

    def chosen(name: str) -> list[str]:
        return list(reach.only(lambda test: is_of(test, name)).seconds)

    assert chosen("tests/tui") == chosen("tests/tui/test_keys.py") == tests[:2]
    assert chosen("tests/tui/test_keys.py::test_help") == chosen(tests[0]) == tests[:1]
    keys = reach.only(lambda test: is_of(test, "tests/tui"))
    assert keys.functions == {"m.py:f": tests[:2]}
    assert keys.enters("m.py", "f") and keys.enters("m.py", "")
    assert not keys.enters("m.py", "g") and not keys.enters("n.py", "g") and not keys.enters("n.py", "")


def test_the_table_is_kept_and_read_again(tmp_path: Path) -> None:
    reach = Reach({"m.py:f": ["a", "b"]}, {"a": 1.0, "b": 0.25})
    reach.store(tmp_path / "folder" / "reach.json")
    assert Reach.load(tmp_path / "folder" / "reach.json") == reach


def test_what_is_called_equivalent_is_a_mutation_of_a_file_that_is_there_and_has_its_reason() -> None:
    for what, why in known_equivalent(EQUIVALENT).items():
        path = what.partition("  ")[0]
        assert why, what
        assert what in {named(one) for one in mutations(path, dict(sources([path]))[path])}, f"{what}: its source has changed"


def test_the_modules_that_enumerations_come_from_are_there() -> None:
    from .mutations import ENUMS

    assert all(importlib.import_module(name) for name in ENUMS)
