"""``spooltop.records`` does what ``dataclasses`` does: the same cases run through both."""

from __future__ import annotations

import copy
import dataclasses
import doctest
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import pytest

import spooltop.records
from spooltop import records

T = TypeVar("T")


def classes(module: Any) -> dict[str, type]:
    dataclass, field = module.dataclass, module.field

    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        kind: ClassVar[str] = "point"

        @property
        def sum(self) -> int:
            return self.x + self.y

    @dataclass(slots=True)
    class Basket(Generic[T]):
        first: T
        others: list[T] = field(default_factory=list)
        hidden: int = field(default=7, repr=False, compare=False)

    @dataclass(frozen=True, slots=True)
    class Named(Point):
        name: str = ""
        length: int = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

    @dataclass(frozen=True, slots=True)
    class Nothing:
        def __repr__(self) -> str:
            return "nothing"

    @dataclass(frozen=True, slots=True)
    class SameByLength:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, SameByLength) and len(self.text) == len(other.text)

        def __hash__(self) -> int:
            return len(self.text)

    return {one.__name__: one for one in (Point, Basket, Named, Nothing, SameByLength)}


OURS, STANDARD = classes(records), classes(dataclasses)
CASES: dict[str, Callable[[dict[str, type], Any], object]] = {
    "repr": lambda of, module: repr(of["Point"](1)).rpartition(".")[2],
    "names and defaults": lambda of, module: [of["Point"](y=5, x=1).sum, of["Point"](1, 3).y, of["Point"].kind],
    "an argument is missing": lambda of, module: of["Point"](),
    "an argument too many": lambda of, module: of["Point"](1, 2, 3),
    "an unknown argument": lambda of, module: of["Point"](1, z=3),
    "equal": lambda of, module: (of["Point"](1) == of["Point"](1), of["Point"](1) == of["Point"](2), of["Point"](1) == (1, 2)),
    "subclass is not equal": lambda of, module: of["Named"](1) == of["Point"](1),
    "hash": lambda of, module: len({of["Point"](1), of["Point"](1), of["Point"](1, 4)}),
    "a mutable one has no hash": lambda of, module: hash(of["Basket"](1)),
    "left out of the comparison": lambda of, module: of["Basket"](1, hidden=8) == of["Basket"](1),
    "left out of the text": lambda of, module: "hidden" in repr(of["Basket"](1)),
    "set": lambda of, module: setattr(of["Point"](1), "x", 3),
    "delete": lambda of, module: delattr(of["Point"](1), "x"),
    "set in a mutable one": lambda of, module: (one := of["Basket"](1), setattr(one, "first", 4), one.first)[-1],
    "an unknown one in a mutable one": lambda of, module: setattr(of["Basket"](1), "z", 3),
    "a list of its own": lambda of, module: (of["Basket"](1).others.append(2), of["Basket"](1).others)[-1],
    "given in place of the factory": lambda of, module: of["Basket"](1, [3]).others,
    "after init": lambda of, module: (of["Named"](1, name="four").length, of["Named"](1, 2, "ab") == of["Named"](1, name="ab")),
    "replace": lambda of, module: (one := module.replace(of["Named"](1, name="a"), name="abc", x=4), one.x, one.length)[1:],
    "replace an unknown one": lambda of, module: module.replace(of["Point"](1), z=4),
    "slots": lambda of, module: (of["Named"].__slots__, hasattr(of["Point"](1), "__dict__")),
    "patterns": lambda of, module: of["Named"].__match_args__,
    "fields": lambda of, module: [(one.name, one.type, one.init) for one in module.fields(of["Named"])],
    "the standard library's fields": lambda of, module: [(one.name, one.type) for one in dataclasses.fields(of["Named"])],
    "the standard library's replace": lambda of, module: dataclasses.replace(of["Point"](1), y=4).y,
    "as a dict": lambda of, module: dataclasses.asdict(of["Basket"](of["Point"](1), [3])),
    "copy": lambda of, module: (one := of["Point"](1), copy.copy(one) == one, copy.deepcopy(one) == one)[1:],
    "methods of its own": lambda of, module: (repr(of["Nothing"]()), of["SameByLength"]("a") == of["SameByLength"]("b")),
    "no fields": lambda of, module: (of["Nothing"]() == of["Nothing"](), hash(of["Nothing"]()) == hash(of["Nothing"]())),
    "docstring": lambda of, module: of["Point"].__doc__,
    "generic": lambda of, module: of["Basket"][int](1).first,
}


def outcome(case: str, of: dict[str, type], module: Any) -> object:
    try:
        return CASES[case](of, module)
    except (TypeError, AttributeError) as error:
        return TypeError if isinstance(error, TypeError) else AttributeError


@pytest.mark.parametrize("case", CASES)
def test_it_does_what_the_standard_library_does(case: str) -> None:
    assert outcome(case, OURS, records) == outcome(case, STANDARD, dataclasses)


@records.dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: int = 0


def test_a_pickled_one_is_made_again() -> None:
    assert pickle.loads(pickle.dumps(Pair(3, 4))) == Pair(3, 4)


def test_an_unknown_field_of_a_frozen_one_is_refused() -> None:
    with pytest.raises(AttributeError, match="cannot assign to field 'z' of a frozen Pair"):
        Pair(1).z = 3  # type: ignore[attr-defined]


def test_the_example_runs() -> None:
    outcome = doctest.testmod(spooltop.records)
    assert outcome.attempted > 0 and outcome.failed == 0
