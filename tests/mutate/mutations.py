"""Every small change of meaning that a source file allows: no docstring, no type hint, no text that is only shown."""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from enum import Enum

__all__ = ["Mutation", "mutations"]

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is",
    ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.FloorDiv(), ast.Div: ast.Mult(), ast.FloorDiv: ast.Mult(),
    ast.LShift: ast.RShift(), ast.RShift: ast.LShift(), ast.BitOr: ast.BitAnd(), ast.BitAnd: ast.BitOr(),
}  # fmt: skip
EMPTY = {"bool": None, "list": "[]", "tuple": "()", "str": '""', "bytes": 'b""', "int": "0", "float": "0.0", "dict": "{}"}
"""Replacement for the return value of a function of that type; a bool is negated."""
ENUMS = ("spooltop.model.vocabulary", "spooltop.model.plan", "spooltop.model.snapshot")
WORDS = {"dead": "alive", "alive": "unknown", "unknown": "dead", "writing": "abandoned", "abandoned": "unknown"}
"""Verdicts that are spelled as text."""
SHOWN = frozenset({"advice", "reason", "hint", "help", "description", "metavar", "epilog", "title", "label", "note"})
"""Keyword arguments whose text is only shown."""
TELLING = frozenset({"warn", "warning", "info", "debug", "say", "print", "log", "cast", "syslog"})
"""Calls that only tell something, or only say a type."""


@dataclass(frozen=True)
class Mutation:
    """``before``, at ``start`` to ``end`` (in bytes) of the file, becomes ``after``. ``function`` is the qualified name of the
    outermost function or method that it is in; empty for what runs at import."""

    path: str
    line: int
    function: str
    kind: str
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        def one_line(text: str) -> str:
            return " ".join(text.split())

        return f"{self.path}:{self.line}  {self.kind}: {one_line(self.before)} → {one_line(self.after)}"


def members() -> dict[str, dict[str, str]]:
    """Name of an enumeration → each member → the next one, which takes its place."""
    found: dict[str, dict[str, str]] = {}
    for module in ENUMS:
        for name, kind in vars(importlib.import_module(module)).items():
            if isinstance(kind, type) and issubclass(kind, Enum) and len(kind) > 1:
                names = [one.name for one in kind]
                found[name] = dict(zip(names, names[1:] + names[:1], strict=True))
    return found


def mutations(path: str, source: bytes) -> list[Mutation]:
    """All of the file ``path``, by line."""
    return sorted(_Finder(path, source).found, key=lambda one: (one.start, one.kind))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._path, self._source = path, source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._inside = 0
        self._returns: list[str] = []
        self._arguments: list[dict[str, str]] = []
        self._members = members()
        self.visit(ast.parse(source))

    # Recording

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _add(self, kind: str, node: ast.AST, after: str) -> None:
        start, end = self._span(node)
        self._found(node.lineno, kind, start, end, after)  # type: ignore[attr-defined]

    def _found(self, line: int, kind: str, start: int, end: int, after: str) -> None:
        function = ".".join(self._scope) if self._inside else ""
        self.found.append(Mutation(self._path, line, function, kind, start, end, self._source[start:end].decode(), after))

    # Scopes, and what has no meaning

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)):
            self.visit(default)
        if not self._inside:
            self._scope.append(node.name)
        self._inside += 1
        self._returns.append(ast.unparse(node.returns) if node.returns is not None else "")
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        self._arguments.append({one.arg: ast.unparse(one.annotation) for one in given if one.annotation is not None})
        for statement in node.body:
            self.visit(statement)
        self._arguments.pop()
        self._returns.pop()
        self._inside -= 1
        if not self._inside:
            self._scope.pop()

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not self._inside:
            self._scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        if not self._inside:
            self._scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "TypeAlias" not in ast.unparse(node.annotation):
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {ast.unparse(target) for target in node.targets}
        if names & {"__all__", "__slots__"} or _is_type(node.value):
            return
        if any(isinstance(target, ast.Attribute) for target in node.targets) and self._inside and self._scope[-1] != "__init__":
            self._add("dropped statement", node, "pass")
        self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text: what stands in it is shown."""

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add("dropped statement", node, "pass")  # its words are only shown

    def visit_Assert(self, node: ast.Assert) -> None:
        """Says what is so, to whom reads."""

    # Changes

    def visit_Compare(self, node: ast.Compare) -> None:
        for at in range(len(node.ops)):
            parts = [self._text(node.left)]
            for number, (one, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
                parts += [COMPARISONS[type(one)] if number == at else _spelled(one), self._text(right)]
            self._add("comparison", node, " ".join(parts))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = " or " if isinstance(node.op, ast.And) else " and "
        same = " and " if isinstance(node.op, ast.And) else " or "
        texts = [f"({self._text(one)})" for one in node.values]
        self._add("boolean", node, f"({other.join(texts)})")
        for at in range(len(texts)):
            self._add("dropped operand", node, f"({same.join(texts[:at] + texts[at + 1 :])})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add("boolean", node, f"bool({self._text(node.operand)})")
        elif isinstance(node.op, ast.USub):
            self._add("arithmetic", node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not _is_text(node.left) and not _is_text(node.right) and not _is_type(node):
            changed = ast.BinOp(node.left, ARITHMETIC[type(node.op)], node.right)
            self._add("arithmetic", node, f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._add("constant", node, repr(node.value + 1))
        elif isinstance(node.value, str) and node.value in WORDS:
            self._add("swapped verdict", node, repr(WORDS[node.value]))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.attr in self._members.get(node.value.id, {}):
            self._add("swapped verdict", node, f"{node.value.id}.{self._members[node.value.id][node.attr]}")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        returns = self._returns[-1] if self._returns else ""
        text = self._text(node.value)
        if returns == "bool" and not isinstance(node.value, ast.Constant | ast.Compare | ast.UnaryOp):
            self._add("return", node.value, f"not ({text})")
        elif returns.endswith("| None") and text != "None":
            self._add("return", node.value, "None")
        else:
            empty = EMPTY.get(returns.partition("[")[0])
            if empty is not None and text != empty and not _is_text(node.value):
                self._add("return", node.value, empty)
        self.visit(node.value)

    def _condition(self, node: ast.If | ast.While | ast.IfExp) -> None:
        text = ast.unparse(node.test)
        if text == "TYPE_CHECKING":
            return
        if not isinstance(node.test, ast.Compare | ast.UnaryOp) or isinstance(node, ast.While):
            self._add("negated condition", node.test, f"not ({self._text(node.test)})")
        self.generic_visit(node)

    visit_If = _condition
    visit_While = _condition
    visit_IfExp = _condition

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            if not isinstance(test, ast.Compare | ast.UnaryOp):
                self._add("negated condition", test, f"not ({self._text(test)})")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call):
            if _name(node.value) in TELLING:
                return
            self._add("dropped statement", node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add("dropped statement", node, "pass")
        self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("dropped statement", node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._add("dropped statement", node, "pass")

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node)
        if name in TELLING or name.endswith(("Error", "TypeVar")):
            return
        if len(node.args) > 1 and not any(isinstance(one, ast.Starred) for one in node.args[:2]):
            first, second = node.args[:2]
            if self._text(first) != self._text(second) and self._alike(first, second):
                (start, end), (_, last) = self._span(first), self._span(second)
                between = self._source[end : self._span(second)[0]].decode()
                self._swap(node, start, last, f"{self._text(second)}{between}{self._text(first)}")
        self.visit(node.func)
        for argument in node.args:
            if name not in ("isinstance", "issubclass") or argument is node.args[0]:
                self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in SHOWN:
                self.visit(keyword.value)

    def _alike(self, first: ast.expr, second: ast.expr) -> bool:
        """True where both may well have one type: swapped arguments of two types are found by mypy."""
        if isinstance(first, ast.Name) and isinstance(second, ast.Name):
            types = self._arguments[-1] if self._arguments else {}
            return types.get(first.id, first.id) == types.get(second.id, second.id)
        if isinstance(first, ast.Attribute) and isinstance(second, ast.Attribute):
            return first.attr == second.attr
        if isinstance(first, ast.Constant) and isinstance(second, ast.Constant):
            return type(first.value) is type(second.value) and not isinstance(first.value, str | bytes)
        return isinstance(first, ast.Call) and isinstance(second, ast.Call) and _name(first) == _name(second)

    def _swap(self, node: ast.Call, start: int, end: int, after: str) -> None:
        self._found(node.lineno, "swapped arguments", start, end, after)


def _spelled(operator: ast.cmpop) -> str:
    """Returns the operator as written in the source."""
    for spelled in ("<", "<=", ">", ">=", "==", "!=", "is", "is not", "in", "not in"):
        parsed = ast.parse(f"a {spelled} b", mode="eval").body
        if isinstance(parsed, ast.Compare) and type(parsed.ops[0]) is type(operator):
            return spelled
    raise AssertionError(operator)


def _name(node: ast.Call) -> str:
    """Last part of the name that is called."""
    called: ast.expr = node.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_type(node: ast.expr) -> bool:
    """A type as it stands in an alias or a cast: ``str | None``, ``Callable[…]``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _is_type(node.left) or _is_type(node.right)
    if isinstance(node, ast.Subscript):
        return _is_type(node.value)
    return (isinstance(node, ast.Name) and (node.id in EMPTY or node.id in ("object", "Callable", "Mapping"))) or (
        isinstance(node, ast.Constant) and node.value is None
    )
