"""The structure of the code: no cycles of modules inside a layer, one module for the C library, one class
for a name, docstrings that begin with what they describe and whose examples hold."""

from __future__ import annotations

import ast
import doctest
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import spooltop
import tests

PACKAGE = Path(spooltop.__file__).parent
BAD_OPENINGS = re.compile(r"(Of|What|Whose|Where|Whether|One)\b")
LAYERS = (
    "model", "engine", "observe", "operate", "cli", "tui", "backends.directory",
    "backends.layouts", "backends.redis", "cursors", "locks",
)  # fmt: skip


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, tuple[Path, ast.Module]]:
    """(path, tree) of each module of spooltop by name: read when a test asks, because each worker collects this file."""
    return {name_of(path): (path, ast.parse(path.read_bytes())) for path in sorted(PACKAGE.rglob("*.py"))}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements that run, those in functions too; what is only for type checkers does not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from statements(other)
            continue
        yield child
        yield from statements(child)


def imported(name: str, tree: ast.Module, is_package: bool, modules: Iterable[str]) -> Iterator[str]:
    """The modules of spooltop that this one imports."""
    known = set(modules)
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name.split(".") if is_package else name.split(".")[:-1]
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                module = f"{base}.{alias.name}"
                if module in known:
                    yield module
                elif base in known:
                    yield base


def cycle_in(graph: Mapping[str, Iterable[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def imports_within(layer: str) -> dict[str, set[str]]:
    inside = [name for name in modules() if name == f"spooltop.{layer}" or name.startswith(f"spooltop.{layer}.")]
    return {
        name: set(imported(name, modules()[name][1], modules()[name][0].name == "__init__.py", modules())) & set(inside) - {name}
        for name in inside
    }


@pytest.mark.parametrize("layer", LAYERS)
def test_no_modules_of_a_layer_import_each_other_in_a_circle(layer: str) -> None:
    graph = imports_within(layer)
    assert graph and cycle_in(graph) == []


def test_a_circle_is_found() -> None:
    source = "def use():\n    from . import b\nif TYPE_CHECKING:\n    from . import c\n"
    names = ["p", "p.a", "p.b", "p.c"]
    graph = {"p.a": set(imported("p.a", ast.parse(source), False, names)), "p.b": {"p.a"}, "p.c": {"p.a"}}
    assert graph["p.a"] == {"p.b"}
    assert set(cycle_in(graph)) == {"p.a", "p.b"}


def test_only_one_module_calls_the_c_library() -> None:
    users = {
        name for name, (_, tree) in modules().items() for node in ast.walk(tree)
        if isinstance(node, ast.Import) and any(alias.name.partition(".")[0] == "ctypes" for alias in node.names)
    }  # fmt: skip
    assert users == {"spooltop.engine.syscalls"}


def test_no_relative_import_leaves_its_package() -> None:
    """Between packages a full name says at once who uses whom."""
    found: list[str] = []
    for name, (path, tree) in modules().items():
        inside = len(path.relative_to(PACKAGE).parts) - 1
        found += [
            f"{name}:{node.lineno}" for node in statements(tree) if isinstance(node, ast.ImportFrom) and node.level > inside > 0
        ]
    assert found == []


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    for name, (_, tree) in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring, those of attributes too."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for before, here in zip([None, *node.body], node.body, strict=False):
                first = before is None
                is_text = isinstance(here, ast.Expr) and isinstance(here.value, ast.Constant)
                if is_text and isinstance(here.value.value, str) and (first or isinstance(before, (ast.Assign, ast.AnnAssign))):
                    yield here.lineno, here.value.value


def test_no_docstring_opens_with_a_genitive_or_a_question() -> None:
    found = [
        f"{name}:{line}: {text.strip()[:60]}"
        for name, (_, tree) in modules().items()
        for line, text in docstrings(tree)
        if BAD_OPENINGS.match(text.strip())
    ]
    assert found == []


@pytest.mark.parametrize("package", ["", *sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))])
def test_every_example_in_a_docstring_holds(package: str) -> None:
    parse = doctest.DocTestParser().get_examples
    for name, (path, tree) in modules().items():
        if path.relative_to(PACKAGE).parent.parts[:1] == ((package,) if package else ()):
            examples = [example for _, text in docstrings(tree) for example in parse(text)]
            if examples:
                assert doctest.testmod(import_module(name)) == (0, len(examples)), name


def test_the_map_of_the_tests_names_every_folder() -> None:
    root = Path(__file__).parent
    folders = {path.parent.relative_to(root).as_posix() for path in root.rglob("test_*.py")} - {"."}
    mapped = re.findall(r"``([a-z0-9_/]+)``", tests.__doc__ or "")
    assert folders <= set(mapped)
    assert [name for name in mapped if not (root / name).exists() and not (root / f"{name}.py").exists()] == ["screenshots/"]


def test_the_files_by_which_a_message_travels_are_there() -> None:
    root = Path(spooltop.__file__).parent
    named = re.findall(r"``([a-z_/]+\.py)``", spooltop.__doc__ or "")
    assert len(named) >= 10 and [name for name in named if not (root / name).is_file()] == []
