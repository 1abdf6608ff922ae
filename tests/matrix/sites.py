"""Call sites in the package of the file operations that change something, as the source has them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import spooltop

from .cuts import CHANGES, Site

__all__ = ["UNREACHABLE", "call_sites"]

METHODS = CHANGES | {"move", "write_all"}

UNREACHABLE = {
    ("operator/moving.py", "unlink"): "the repair that precedes each operation has removed the second name",
    ("engine/producer.py", "copy_owner"): "only root gives a message away, to the owner of a spool that is not root's",
}
"""(File, method) → why no supported way leads to that call alone."""


def call_sites() -> dict[Site, str]:
    """Returns each call of a changing method on a files object, or by a local name for it, with the name of the method."""
    package = Path(spooltop.__file__).parent
    return {site: name for file in sorted(package.rglob("*.py")) for site, name in _of_file(file)}


def _of_file(file: Path) -> Iterator[tuple[Site, str]]:
    tree = ast.parse(file.read_text())
    is_files = "engine/files.py" in str(file)
    local: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target, value in zip(_parts(node.targets[0]), _parts(node.value), strict=False):
                if isinstance(target, ast.Name) and isinstance(value, ast.Attribute) and _changes(value, is_files):
                    local[target.id] = value.attr
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = local.get(node.func.id) if isinstance(node.func, ast.Name) else None
            if isinstance(node.func, ast.Attribute) and _changes(node.func, is_files):
                name = node.func.attr
            if name is not None:
                yield (str(file), node.end_lineno or 0, node.end_col_offset or 0), name


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _changes(node: ast.Attribute, is_files: bool) -> bool:
    receiver = ast.unparse(node.value)
    return node.attr in METHODS and (receiver.endswith("files") or (is_files and receiver == "self"))
