"""One call of a function of the model: its statements, one after the other."""

import ast
from typing import Any

from certgcl.models.layers.lookup import is_a
from certgcl.models.reading.arithmetic import combine
from certgcl.models.reading.expressions import Expressions
from certgcl.models.reading.iteration import iterate
from certgcl.models.reading.operators import BINARY
from certgcl.models.reading.refusals import refusal
from certgcl.models.reading.values import Opaque, Symbol

_WORDS: dict[type[ast.stmt], str] = {
    ast.While: "a while loop",
    ast.Try: "try",
    ast.With: "a with block",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.Global: "a global name",
    ast.Nonlocal: "a nonlocal name",
    ast.Delete: "del",
    ast.Raise: "a raise that is reached",
    ast.FunctionDef: "a function",
    ast.ClassDef: "a class",
}


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Frame(Expressions):
    """Runs a function on symbols."""

    def run(self) -> Any:
        node = self.source.node
        if isinstance(node, ast.Lambda):
            return self.value(node.body)
        try:
            self._block(node.body)
        except _Return as returned:
            return returned.value
        return None

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.tracer.step(self.place, statement)
            execute = getattr(self, f"_do_{type(statement).__name__}", None)
            if execute is None:
                what = _WORDS.get(type(statement), type(statement).__name__)
                raise refusal(f"{what} in forward", self.place(statement))
            execute(statement)

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _do_Return(self, node: ast.Return) -> None:
        raise _Return(None if node.value is None else self.value(node.value))

    def _do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value))
        elif not isinstance(node.target, ast.Name):
            raise refusal("an annotation of an attribute", self.place(node))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        """``h += x`` changes the tensor itself, which all its names share."""
        if not isinstance(node.target, ast.Name):
            raise refusal(
                "an attribute or part that forward sets",
                self.place(node),
                remedy="A forward must leave the model and its inputs as they are",
            )
        place = self.place(node)
        old, new = self.value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node)), self.value(node.value)
        if type(old) is Symbol and isinstance(node.op, ast.MatMult):  # torch has no in-place version of it
            self.names[node.target.id] = self.combined(old, node.op, new, place)
        elif type(old) is Symbol:
            self.tracer.check_changeable(old, place)
            old.node = combine(self.tracer, BINARY.get(type(node.op), type(node.op).__name__), old, new, place)
        elif is_a(old, int, float, str, tuple) or type(old) is Opaque:
            self.names[node.target.id] = self.combined(old, node.op, new, place)
        else:
            raise refusal(f"a {type(old).__name__} changed in place", place)

    def _do_If(self, node: ast.If) -> None:
        self._block(node.body if self.decide(node.test) else node.orelse)

    def _do_Assert(self, node: ast.Assert) -> None:
        if not self.decide(node.test):
            raise refusal("an assert that fails", self.place(node))

    def _do_For(self, node: ast.For) -> None:
        for item in iterate(self.value(node.iter), self.place(node.iter)):
            self.assign(node.target, item)
            try:
                self._block(node.body)
            except _Continue:
                continue
            except _Break:
                return
        self._block(node.orelse)

    def _do_Break(self, node: ast.Break) -> None:
        raise _Break

    def _do_Continue(self, node: ast.Continue) -> None:
        raise _Continue
