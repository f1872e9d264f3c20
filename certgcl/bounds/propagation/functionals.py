"""Functionals in the form that costs least: shared by many nodes as long as they can be."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.models.activations import Lines
from certgcl.models.network import Term


class LineTable(NamedTuple):
    """Lines around an activation in some cells, by each rule: middle and radius of their slopes, and of their
    intercepts, ``(cells, R, d)``."""

    slopes: tuple[Tensor, Tensor]
    intercepts: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, lines: list[Lines]) -> "LineTable":
        lower_slope, lower, upper_slope, upper = (torch.stack(part, dim=1) for part in zip(*lines, strict=True))
        return cls(((lower_slope + upper_slope) / 2, (upper_slope - lower_slope) / 2),
                   ((lower + upper) / 2, (upper - lower) / 2))


@dataclass(frozen=True, eq=False)
class Functionals:
    """M functionals of d numbers at each of E entries, by R rules; one in the place of E or R where they are the same.

    They are ``factor (ω a - |ω| r)`` with a and r the mean and half the difference of the slopes of two lines, where
    they have come through lines that differ from entry to entry while ω does not: so ω and -ω share products, and no
    tensor has E, M and d numbers.

    Args:
        vector: ω, ``(E or 1, R or 1, M, d)``.
        slopes: a and r, ``(E, R, d)``.
        factor: at least zero, ``(E,)``.
        paired: whether the second half of the functionals is minus the first.
    """

    vector: Tensor
    slopes: tuple[Tensor, Tensor] | None = None
    factor: Tensor | None = None
    paired: bool = False

    @property
    def number(self) -> int:
        """M."""
        return self.vector.shape[2]

    @property
    def shared(self) -> bool:
        """Whether all entries have the same ones."""
        return self.vector.shape[0] == 1 and self.slopes is None and self.factor is None

    def explicit(self) -> Tensor:
        """``(E or 1, R or 1, M, d)``."""
        vector = self.vector
        if self.slopes is not None:
            middle, radius = (part[:, :, None] for part in self.slopes)
            vector = vector * middle - vector.abs() * radius
        return vector if self.factor is None else vector * self.factor[:, None, None, None]

    def by_rule(self, rules: int) -> "Functionals":
        """The same for every rule."""
        return self if self.slopes is not None else replace(self, vector=self.vector.expand(-1, rules, -1, -1))

    def scaled(self, factor: Tensor) -> "Functionals":
        """Times a number at every entry that is at least zero."""
        return replace(self, factor=factor if self.factor is None else self.factor * factor)

    def plus(self, other: "Functionals | None") -> "Functionals":
        if other is None:
            return self
        return Functionals(self.explicit() + other.explicit())

    def back(self, term: Term) -> "Functionals":
        """``W`` times them: functionals of what a term takes."""
        if self.slopes is None:
            return replace(self, vector=term.back(self.vector))
        whole = replace(self, factor=None).explicit()
        return Functionals(term.back(whole), None, self.factor)  # lines have bent one of a pair more than the other

    def through(self, lines: LineTable, line: Tensor) -> "tuple[Functionals, Tensor]":
        """``ω · σ(p) >= λ · p + c`` by the lines of each rule: λ, and c ``(E, R, M)``.

        Args:
            line: which of the lines every entry has, ``(E,)``.
        """
        slopes, intercepts = lines
        if self.vector.shape[0] == 1 and self.vector.shape[1] == 1 and self.slopes is None:
            constant = self._products(self.vector[0, 0], intercepts[0][line], intercepts[1][line])
            return replace(self, slopes=(slopes[0][line], slopes[1][line])), self._factored(constant)
        vector = self.explicit()
        size = vector.abs()
        slope = (vector * slopes[0][line][:, :, None]).addcmul(size, slopes[1][line][:, :, None], value=-1)
        constant = vector @ intercepts[0][line][..., None] - size @ intercepts[1][line][..., None]
        return Functionals(slope), constant[..., 0]

    def dot(self, values: Tensor) -> Tensor:
        """Their values at one vector for all entries, ``(d,)``, or for each, ``(E, d)``; ``(E or 1, R or 1, M)``."""
        if self.slopes is None:
            if self.vector.shape[0] == 1:
                flat = values if values.dim() == 2 else values[None]
                found = (flat @ self.vector.flatten(0, -2).T).unflatten(1, self.vector.shape[1:3])
            else:
                found = (self.vector @ (values if values.dim() == 1 else values[:, None, :, None])).reshape(
                    self.vector.shape[:3])
            return self._factored(found)
        values = values if values.dim() == 1 else values[:, None]
        middle, radius = (part * values for part in self.slopes)
        return self._factored(self._products(self.vector[0, 0], middle, radius))

    def dot_each(self, values: Tensor, owner: Tensor) -> Tensor:
        """Their values at many vectors, ``(n, d)``, each with the functionals of its entry, ``(n, R M)``. Only for
        functionals with slopes, or that are shared."""
        if self.slopes is None:
            found = values @ self.vector.flatten(0, -2).T
        else:
            middle, radius = (part[owner] * values[:, None] for part in self.slopes)
            found = self._products(self.vector[0, 0], middle, radius).flatten(1)
        return found if self.factor is None else found * self.factor[owner, None]

    def lowest(self, middle: Tensor, radius: Tensor) -> Tensor:
        """Their least values at vectors within a radius of the middle, ``(E, d)`` both; ``(E, R or 1, M)``."""
        if self.vector.shape[0] == 1 and self.slopes is None:
            flat = self.vector.flatten(0, -2)
            found = (middle @ flat.T - radius @ flat.abs().T).unflatten(1, self.vector.shape[1:3])
            return self._factored(found)
        whole = self.explicit()
        return (whole @ middle[:, None, :, None] - whole.abs() @ radius[:, None, :, None])[..., 0]

    def negated(self) -> "Functionals":
        return Functionals(-self.explicit())

    def _products(self, omega: Tensor, middle: Tensor, radius: Tensor) -> Tensor:
        """``middle · ω - radius · |ω|`` for functionals ``(M, d)`` and ``(E, R, d)``, ``(E, R, M)``."""
        if not self.paired:
            return middle @ omega.T - radius @ omega.abs().T
        half = omega[: len(omega) // 2].T
        one, other = middle @ half, radius @ half.abs()
        return torch.cat([one - other, -one - other], dim=-1)

    def _factored(self, values: Tensor) -> Tensor:
        return values if self.factor is None else values * self.factor[:, None, None]
