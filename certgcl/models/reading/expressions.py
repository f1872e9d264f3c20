"""Evaluates expressions of the source, with symbols for whatever depends on the inputs."""

import ast
import os
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import Parameter

from certgcl.models.layers.formula import Operation, Position
from certgcl.models.layers.lookup import MISSING, is_a, is_class
from certgcl.models.layers.modules import modules_in, store
from certgcl.models.reading.arithmetic import combine
from certgcl.models.reading.attributes import attribute, unwrapped
from certgcl.models.reading.iteration import MODULE_LISTS, iterate
from certgcl.models.reading.operators import BINARY, COMPARISONS, binary_on_plain, guarded, same_object, truth
from certgcl.models.reading.refusals import refusal
from certgcl.models.reading.source import FunctionSource
from certgcl.models.reading.values import Built, Opaque, Symbol, depends_on_inputs, is_plain

if TYPE_CHECKING:
    from certgcl.models.reading.tracer import Tracer

_LONGEST = 80  # characters of an expression in a message


class Expressions:
    """One call of a function: its names and what they stand for."""

    def __init__(self, tracer: "Tracer", function: FunctionType, source: FunctionSource, names: dict[str, Any]) -> None:
        self.tracer, self.function, self.source, self.names = tracer, function, source, names
        code = function.__code__
        self.local = {*code.co_varnames, *code.co_cellvars, *names}

    def place(self, node: ast.AST) -> Position:
        places = self.source.places
        if node not in places:
            text = " ".join(ast.unparse(node).split())
            text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
            places[node] = Position(os.path.basename(self.source.file), getattr(node, "lineno", 0), text)
        return places[node]

    def value(self, node: ast.expr) -> Any:
        self.tracer.step(self.place, node)
        evaluate = getattr(self, f"_{type(node).__name__}", None)
        if evaluate is None:
            raise refusal(f"{type(node).__name__} in forward", self.place(node))
        return evaluate(node)

    def decide(self, node: ast.expr) -> bool:
        """Whether an expression is true, which must not depend on the inputs."""
        return truth(self.value(node), self.place(node))

    # -- names and attributes ----------------------------------------------------------------------

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.names:
            return self.names[name]
        function: Any = self.function
        found = MISSING
        if name.startswith("__") or type(function.__globals__) is not dict or type(function.__builtins__) is not dict:
            raise refusal(f"the name {name}", self.place(node))
        if name in function.__code__.co_freevars:
            found = self.closed_over(name)
        elif name not in self.local:
            found = function.__globals__.get(name, function.__builtins__.get(name, MISSING))
        if found is MISSING:
            raise refusal(f"the name {name}, which has no value", self.place(node))
        return unwrapped(found)

    def closed_over(self, name: str) -> Any:
        """The value of a name from an enclosing scope."""
        cells = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))
        try:
            return cells[name].cell_contents if name in cells else MISSING
        except ValueError:  # not assigned yet
            return MISSING

    def _Attribute(self, node: ast.Attribute) -> Any:
        found = attribute(self.value(node.value), node.attr, self.place(node))
        if found is MISSING:
            raise refusal(f"the attribute {node.attr}, which does not exist", self.place(node))
        return unwrapped(found)

    # -- calls -------------------------------------------------------------------------------------

    def _Call(self, node: ast.Call) -> Any:
        if any(isinstance(argument, ast.Starred) for argument in node.args) or any(
            keyword.arg is None for keyword in node.keywords
        ):
            raise refusal("a call with * or **", self.place(node), remedy="Write the arguments out")
        called = self.value(node.func)
        if called is super and not node.args and not node.keywords:
            return self._super(node)
        arguments = [self.value(argument) for argument in node.args]
        keywords = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        return self.tracer.call(called, arguments, keywords, self.place(node))

    def _super(self, node: ast.Call) -> Any:
        cls, first = self.closed_over("__class__"), self.function.__code__.co_varnames[:1]
        if not is_class(cls) or not first or first[0] not in self.names:
            raise refusal("super() outside a method", self.place(node))
        return self.tracer.call(super, [cls, self.names[first[0]]], {}, self.place(node))

    # -- decisions ---------------------------------------------------------------------------------

    def _IfExp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.decide(node.test) else node.orelse)

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        *first, last = node.values
        for part in first:
            value = self.value(part)
            if truth(value, self.place(part)) is isinstance(node.op, ast.Or):
                return value
        return self.value(last)

    def _Compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), True
        for operator, following in zip(node.ops, node.comparators, strict=True):
            right = self.value(following)
            result = self._compare(left, operator, right, node)
            if type(result) is Opaque:
                if len(node.ops) > 1:
                    raise refusal("a decision on the inputs", self.place(node))
                return result
            if not result:
                return result
            left = right
        return result

    def _compare(self, left: Any, operator: ast.cmpop, right: Any, node: ast.Compare) -> Any:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return same_object(left, right, self.place(node)) is isinstance(operator, ast.Is)
        if depends_on_inputs(left) or depends_on_inputs(right):
            return Opaque(self.place(node).text)
        if not is_plain(left) or not is_plain(right):
            raise refusal("a comparison of objects", self.place(node))
        return guarded(self.place(node), COMPARISONS[type(operator)], left, right)

    # -- arithmetic --------------------------------------------------------------------------------

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return not self.decide(node.operand)
        operand, place = self.value(node.operand), self.place(node)
        if type(operand) is Symbol and isinstance(node.op, (ast.USub, ast.UAdd)):
            return Symbol(combine(self.tracer, "*", operand, -1 if isinstance(node.op, ast.USub) else 1, place))
        if type(operand) is Symbol:
            return Symbol(Operation(type(node.op).__name__, (operand.node,), place))
        if type(operand) is Opaque:
            return Opaque(place.text)
        if not is_a(operand, int, float) or not isinstance(node.op, (ast.USub, ast.UAdd)):
            raise refusal(f"{type(node.op).__name__} of a {type(operand).__name__}", place)
        return -operand if isinstance(node.op, ast.USub) else operand

    def _BinOp(self, node: ast.BinOp) -> Any:
        return self.combined(self.value(node.left), node.op, self.value(node.right), self.place(node))

    def combined(self, left: Any, operator: ast.operator, right: Any, place: Position) -> Any:
        """A tensor operation if tensors are involved, otherwise Python's own arithmetic."""
        name = BINARY.get(type(operator), type(operator).__name__)
        sides = (left, right)
        if any(type(side) is Symbol for side in sides):
            if not all(is_a(side, Symbol, Tensor, Parameter, Opaque, bool, int, float) for side in sides):
                raise refusal(f"{name} with a {type(right).__name__}", place)
            return Symbol(combine(self.tracer, name, left, right, place))
        if any(type(side) is Opaque for side in sides):
            return Opaque(place.text)
        return guarded(place, binary_on_plain, left, operator, right, place)

    # -- containers --------------------------------------------------------------------------------

    def _Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._elements(node.elts))

    def _List(self, node: ast.List) -> Built:
        return Built(self._elements(node.elts))

    def _elements(self, nodes: list[ast.expr]) -> Iterator[Any]:
        for element in nodes:
            yield self.value(element)

    def _Slice(self, node: ast.Slice) -> slice:
        ends = [None if end is None else self.value(end) for end in (node.lower, node.upper, node.step)]
        return slice(*ends)

    def _Subscript(self, node: ast.Subscript) -> Any:
        container, index, place = self.value(node.value), self.value(node.slice), self.place(node)
        if type(container) is Symbol:
            return Symbol(Operation("[]", (container.node,), place), view=True)
        if type(container) is Opaque:
            return Opaque(place.text)
        if is_a(container, *MODULE_LISTS):
            container = modules_in(container)
        if is_a(container, tuple, list, Built) and _is_position(index):
            found = guarded(place, type(container).__getitem__, container, index)
            return Built(found) if type(container) is Built and type(index) is slice else unwrapped(found)
        if type(container) is nn.ModuleDict and type(index) is str:
            container = dict(store(container, "_modules"))
        if type(container) is dict and is_a(index, str, int) and all(is_a(key, str, int) for key in container):
            return unwrapped(guarded(place, dict.__getitem__, container, index))
        raise refusal(f"an index into a {type(container).__name__}", place)

    def _JoinedStr(self, node: ast.JoinedStr) -> str:
        parts = []
        for part in node.values:
            value = self.value(part.value) if isinstance(part, ast.FormattedValue) else self.value(part)
            if not is_a(value, str, int) or (
                isinstance(part, ast.FormattedValue) and (part.format_spec is not None or part.conversion != -1)
            ):
                raise refusal("an f-string with more than text and integers", self.place(node))
            parts.append(str(value))
        return "".join(parts)

    def _ListComp(self, node: ast.ListComp) -> Built:
        if len(node.generators) != 1 or node.generators[0].is_async:
            raise refusal("a comprehension with several loops", self.place(node))
        loop, outer, made = node.generators[0], self.names, Built()
        items = iterate(self.value(loop.iter), self.place(loop.iter))
        self.names = dict(outer)  # assignments in the comprehension stay inside
        for item in items:
            self.assign(loop.target, item)
            if all(self.decide(condition) for condition in loop.ifs):
                made.append(self.value(node.elt))
        self.names = outer
        return made

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a value to a name, or its parts to several."""
        if isinstance(target, ast.Name):
            self.names[target.id] = unwrapped(value)
        elif (
            isinstance(target, (ast.Tuple, ast.List))
            and is_a(value, tuple, list, Built)
            and (len(target.elts) == len(value))
        ):
            for part, item in zip(target.elts, value, strict=True):
                self.assign(part, item)
        else:
            words = {ast.Attribute: "an attribute that forward sets", ast.Subscript: "a part that forward overwrites"}
            raise refusal(
                words.get(type(target), "an assignment to parts"),
                self.place(target),
                remedy="A forward must leave the model and its inputs as they are",
            )


def _is_position(index: Any) -> bool:
    ends = (index.start, index.stop, index.step) if type(index) is slice else (index,)
    return all(type(end) is int or (end is None and type(index) is slice) for end in ends)
