"""Dataclasses that are made in a tenth of the time: ``from spooltop.records import dataclass`` in place of ``dataclasses``.

The standard library compiles six methods for each class and loads ``inspect``; with a hundred classes that takes 150 ms, more
than all else that ``spooltop status`` does. Here ``__init__`` alone is compiled, once for all classes of one form, and the other
methods are shared. Type checkers see the standard library's functions; ``dataclasses.fields``, ``replace`` and ``asdict`` accept
these classes too.

>>> @dataclass(frozen=True, slots=True)
... class Point:
...     x: int
...     y: int = 0
>>> replace(Point(1), y=2)
Point(x=1, y=2)
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from types import FunctionType

TYPE_CHECKING = False  # typing takes 5 ms to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["dataclass", "field", "fields", "replace"]

_FIELDS = "__dataclass_fields_made__"
_MISSING: Any = type("_MISSING", (), {"__repr__": lambda self: "<default>"})()
"""Stands for a default that there is not, and for an argument that was left out."""


class _Field:
    """Properties of a field, with the names that they have in ``dataclasses.Field``."""

    __slots__ = ("compare", "default", "default_factory", "init", "name", "repr", "type")

    def __init__(self, default: Any, default_factory: Any, init: bool, repr: bool, compare: bool) -> None:
        self.name = ""
        self.type = ""
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.compare = compare


def _field(
    *, default: Any = _MISSING, default_factory: Any = _MISSING, init: bool = True, repr: bool = True, compare: bool = True
) -> Any:
    return _Field(default, default_factory, init, repr, compare)


def _fields(of: Any) -> tuple[_Field, ...]:
    return tuple(getattr(of, _FIELDS))


def _replace(one: Any, /, **changes: Any) -> Any:
    for each in getattr(one, _FIELDS):
        if each.init and each.name not in changes:
            changes[each.name] = getattr(one, each.name)
    return one.__class__(**changes)


def _dataclass(*, slots: bool, frozen: bool = False) -> Callable[[type], type]:
    """Makes a class with slots; one without slots is nowhere needed."""
    assert slots
    return _frozen if frozen else _mutable


def _frozen(cls: type) -> type:
    return _made(cls, frozen=True)


def _mutable(cls: type) -> type:
    return _made(cls, frozen=False)


def _made(cls: type, frozen: bool) -> type:
    own = _own_fields(cls)
    inherited = {one.name: one for base in reversed(cls.__mro__[1:]) for one in base.__dict__.get(_FIELDS, ())}
    every = tuple({**inherited, **{one.name: one for one in own}}.values())
    members = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
    for one in own:
        members.pop(one.name, None)  # a default, which would hide the slot
    members["__slots__"] = tuple(one.name for one in own if one.name not in inherited)
    members["__match_args__"] = tuple(one.name for one in every if one.init)
    members[_FIELDS] = every
    members["__dataclass_fields__"] = _StandardFields()
    members.setdefault("__repr__", _repr)
    values = _values_of([one.name for one in every if one.compare])
    if "__eq__" not in members:
        members["__eq__"] = _eq_of(values)
    if frozen:
        members.update(__setattr__=_refuse_set, __delattr__=_refuse_delete, __reduce__=_reduce)
    if members.get("__hash__") is None:  # a class that defines __eq__ has None there
        members["__hash__"] = _hash_of(values) if frozen else None
    members["__qualname__"] = cls.__qualname__

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        """Replaces itself by the compiled one: most classes of a run never get an instance."""
        made.__init__ = init = _init_of(made, every, frozen)  # type: ignore[misc]
        init(self, *arguments, **named)

    members["__init__"] = __init__
    made: type = type(cls)(cls.__name__, cls.__bases__, members)
    return made


def _own_fields(cls: type) -> list[_Field]:
    found = []
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        if str(annotation).startswith("ClassVar"):
            continue
        given = vars(cls).get(name, _MISSING)
        one = given if isinstance(given, _Field) else _field(default=given)
        one.name, one.type = name, annotation
        found.append(one)
    return found


def _init_of(cls: type, fields: tuple[_Field, ...], frozen: bool) -> Any:
    """Makes ``__init__``. Slots are set by their descriptors, which a frozen class leaves usable.

    The source has the fields' numbers in place of their names, so that classes of one form share what is compiled. The names are
    put into the code afterwards.
    """
    values: dict[str, Any] = {"_missing": _MISSING}
    names, arguments, defaults, body = {}, [], [], []
    for number, one in enumerate(fields):
        value = name = f"f{number}"
        names[name] = one.name
        if one.default_factory is not _MISSING:
            values[f"make_{name}"] = one.default_factory
            value = f"make_{name}() if {name} is _missing else {name}" if one.init else f"make_{name}()"
        elif not one.init:
            continue
        if one.init:
            arguments.append(name)
            if one.default_factory is not _MISSING or one.default is not _MISSING:
                defaults.append(one.default)
        if frozen:
            values[f"set_{name}"] = getattr(cls, one.name).__set__
            body.append(f" set_{name}(self, {value})")
        else:
            body.append(f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    code = _compiled("\n".join((f"def __init__(self, {', '.join(arguments)}):", *body, " return None")))
    named = {of: tuple(names.get(name, name) for name in getattr(code, of)) for of in ("co_varnames", "co_names")}
    init = FunctionType(code.replace(**named), values, "__init__", tuple(defaults))
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@cache
def _compiled(source: str) -> Any:
    """Compiles the one function in ``source``."""
    made: dict[str, Any] = {}
    exec(source, made)
    return made["__init__"].__code__


def _values_of(names: list[str]) -> Callable[[Any], Any]:
    """Returns a function that gets the values of these fields: a tuple, or the value itself where there is one field."""
    return attrgetter(*names) if names else lambda one: ()


def _eq_of(values: Callable[[Any], Any]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        return bool(values(self) == values(other)) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash_of(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    return lambda self: hash(values(self))


def _repr(self: Any) -> str:
    parts = (f"{one.name}={getattr(self, one.name)!r}" for one in getattr(self, _FIELDS) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(parts)})"


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise AttributeError(f"cannot assign to field {name!r} of a frozen {self.__class__.__qualname__}")


def _refuse_delete(self: Any, name: str) -> None:
    raise AttributeError(f"cannot delete field {name!r} of a frozen {self.__class__.__qualname__}")


def _reduce(self: Any) -> tuple[type, tuple[Any, ...]]:
    """Copies and pickles by ``__init__``, since nothing else may set a field."""
    return self.__class__, tuple(getattr(self, one.name) for one in getattr(self, _FIELDS) if one.init)


class _StandardFields:
    """The fields as ``dataclasses`` has them, made when a function of that module asks for them."""

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        return _standard_fields(owner)


@cache
def _standard_fields(owner: type) -> dict[str, Any]:
    """The fields of a class for ``dataclasses``. Making them takes some milliseconds, so it is done once."""
    import dataclasses

    given = [(one.name, one.type, dataclasses.field(init=one.init, repr=one.repr)) for one in getattr(owner, _FIELDS)]
    return {one.name: one for one in dataclasses.fields(dataclasses.make_dataclass(owner.__name__, given))}


if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
else:
    dataclass, field, fields, replace = _dataclass, _field, _fields, _replace
