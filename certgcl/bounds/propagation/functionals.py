"""Functionals in their cheapest form, shared by many nodes as long as possible."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds import compiled
from certgcl.models.activations import Lines
from certgcl.models.layer import Term


class LineBand(NamedTuple):
    """Lines around an activation in some cells, by each rule: middle and radius of their slopes, and of their
    intercepts, ``(cells, R, d)``."""

    slopes: tuple[Tensor, Tensor]
    intercepts: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, lines: list[Lines]) -> "LineBand":
        lower_slope, lower, upper_slope, upper = (torch.stack(part, dim=1) for part in zip(*lines, strict=True))
        return cls(
            ((lower_slope + upper_slope) / 2, (upper_slope - lower_slope) / 2),
            ((lower + upper) / 2, (upper - lower) / 2),
        )


class Slopes(NamedTuple):
    """Slopes of lines by each rule, middle and radius, ``(lines, R, d)``; and which lines every entry has, ``(E,)``."""

    middle: Tensor
    radius: Tensor
    line: Tensor

    def of_entries(self, entries: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """``(E, R, d)``, or of some entries."""
        line = self.line if entries is None else self.line[entries]
        return self.middle[line], self.radius[line]


@dataclass(frozen=True, eq=False)
class Functionals:
    """M functionals of d numbers at each of E entries, by R rules; 1 instead of E or R where they are the same.

    They are ``factor (ω a - |ω| r)`` with a and r the mean and half the difference of the slopes of two lines, after
    passing through lines: so entries with the same ω, or the same lines, share them, and no tensor has size E × M × d.

    Args:
        vector: ω, ``(T, R or 1, M, d)``: one for all entries, one for each, or those that ``entry`` names.
        entry: the place of its ω, for every entry, ``(E,)``.
        factor: at least zero, ``(E,)``.
        paired: whether the second half of the functionals is minus the first.
    """

    vector: Tensor
    entry: Tensor | None = None
    slopes: Slopes | None = None
    factor: Tensor | None = None
    paired: bool = False

    @property
    def number(self) -> int:
        """M."""
        return self.vector.shape[2]

    @property
    def rules(self) -> int:
        """R, or 1."""
        return self.vector.shape[1] if self.slopes is None else self.slopes.middle.shape[1]

    @property
    def same(self) -> bool:
        """Whether all entries have the same ω."""
        return self.vector.shape[0] == 1 and self.entry is None

    @property
    def shared(self) -> bool:
        """Whether all entries have the same functionals."""
        return self.same and self.slopes is None and self.factor is None

    def explicit(self) -> Tensor:
        """``(E or 1, R or 1, M, d)``."""
        vector = self.vector if self.entry is None else self.vector[self.entry]
        if self.slopes is not None:
            middle, radius = (part[:, :, None] for part in self.slopes.of_entries())
            vector = vector * middle - vector.abs() * radius
        return vector if self.factor is None else vector * self.factor[:, None, None, None]

    def some(self, entries: Tensor) -> "Functionals":
        """Those of some entries."""
        own = self.vector if self.same or self.entry is not None else self.vector[entries]
        return replace(
            self,
            vector=own,
            entry=None if self.entry is None else self.entry[entries],
            slopes=self.slopes and self.slopes._replace(line=self.slopes.line[entries]),
            factor=None if self.factor is None else self.factor[entries],
        )

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
        """``W`` times these functionals: functionals of a term's input."""
        if self.slopes is None:
            return replace(self, vector=term.back(self.vector))
        # Lines have changed the two of a pair differently, so they are no longer a pair.
        return Functionals(self._times_weight(self.slopes, term), factor=self.factor)

    def _times_weight(self, slopes: Slopes, term: Term) -> Tensor:
        """``W`` times them, without their factor, ``(E, R, M, inputs)``."""
        if term.weight.dim() == 1 or torch.is_grad_enabled() or not compiled.usable(term.weight.device):
            return term.back(replace(self, factor=None).explicit())
        from certgcl.bounds.compiled.entries import back_through, weight_times

        if self.same and self.paired:
            return weight_times(slopes, self.vector[0, 0, : self.number // 2], term.weight)
        functional = self._functional(len(slopes.line))
        return back_through(functional, slopes.line, self.vector[:, 0], slopes.middle, slopes.radius, term.weight)

    def through(self, lines: LineBand, line: Tensor) -> "tuple[Functionals, Tensor]":
        """``ω · σ(p) >= λ · p + c`` by the lines of each rule: λ, and c ``(E, R, M)``.

        Args:
            line: which of the lines every entry has, ``(E,)``.
        """
        if self.slopes is None and self.vector.shape[1] == 1:
            return replace(self, slopes=Slopes(*lines.slopes, line)), self._least(*lines.intercepts, line)
        vector, (slopes, intercepts) = self.explicit(), lines
        size = vector.abs()
        slope = (vector * slopes[0][line][:, :, None]).addcmul(size, slopes[1][line][:, :, None], value=-1)
        constant = vector @ intercepts[0][line][..., None] - size @ intercepts[1][line][..., None]
        return Functionals(slope), constant[..., 0]

    def dot(self, values: Tensor) -> Tensor:
        """Their values at one vector for all entries, ``(E or 1, R or 1, M)``."""
        if self.slopes is None:
            found = self.vector @ values
            return self._factored(found if self.entry is None else found[self.entry])
        if self.same:
            return self._factored(self._products(*(part * values for part in self.slopes.of_entries())))
        return self.dot_rows(values[None], torch.zeros_like(self.slopes.line))

    def dot_rows(self, table: Tensor, place: Tensor) -> Tensor:
        """Their values at one vector for each entry, ``(E, R or 1, M)``.

        Args:
            table: vectors, ``(n, d)``, of which ``place`` names one for each entry.
        """
        if self.shared:
            return (table[place] @ self.vector.flatten(0, -2).T).unflatten(1, self.vector.shape[1:3])
        if self.slopes is None:
            vector = self.vector if self.entry is None else self.vector[self.entry]
            return self._factored((vector @ table[place][:, None, :, None])[..., 0])
        if self.same or not compiled.usable(table.device):
            return self._scaled_products(table[place])
        start = torch.arange(len(place) + 1, device=place.device)
        return self.dot_each(table, place, start).unflatten(1, (-1, self.number))

    def dot_each(self, table: Tensor, place: Tensor, start: Tensor) -> Tensor:
        """Their values at the vectors of every entry, ``(n, R M)``, by kernels. Only for functionals that have passed
        through lines.

        Args:
            table: vectors, of which an entry is multiplied with those at ``place[start[e]] … place[start[e + 1] - 1]``.
        """
        from certgcl.bounds.compiled.entries import products_through

        assert self.slopes is not None
        found = products_through(
            self._functional(len(self.slopes.line)),
            self.slopes.line,
            start,
            place,
            self.vector[:, 0],
            self.slopes.middle,
            self.slopes.radius,
            table,
        )
        if self.factor is None:
            return found
        return found * torch.repeat_interleave(self.factor, start.diff())[:, None]

    def dot_some(self, values: Tensor, entries: Tensor) -> Tensor:
        """Their values at many vectors, ``(n, d)``, each with the functionals of its entry, ``(n, R M)``. Only for
        functionals that have come through lines, from one ω for all entries."""
        assert self.slopes is not None
        found = self._products(*(part * values[:, None] for part in self.slopes.of_entries(entries))).flatten(1)
        return found if self.factor is None else found * self.factor[entries, None]

    def lowest_some(self, middle: Tensor, radius: Tensor, entries: Tensor) -> Tensor:
        """Their least values at many vectors within a radius of the middle, ``(n, d)``, each with the functionals of
        its entry, ``(n, R M)``. Only for functionals that have come through lines, from one ω for all entries."""
        assert self.slopes is not None
        found = self._products(*self._range_through(middle, radius, *self.slopes.of_entries(entries))).flatten(1)
        return found if self.factor is None else found * self.factor[entries, None]

    @staticmethod
    def _range_through(middle: Tensor, radius: Tensor, slope: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors x and y with ``λ · v >= ω · x - |ω| · y`` for all v within a radius of the middle, ``(n, R, d)``, for
        ``λ = ω a - |ω| r``, so that λ need not be written out.

        In every channel λ is ``ω (a - r)`` or ``ω (a + r)``, by the sign of ω; so ``|λ| = |ω| p + ω q`` with p and q
        the mean and half the difference of ``|a - r|`` and ``|a + r|``.
        """
        middle, radius = middle[:, None], radius[:, None]
        one, other = (slope - spread).abs(), (slope + spread).abs()
        return slope * middle - (one - other) / 2 * radius, spread * middle + (one + other) / 2 * radius

    def lowest(self, middle: Tensor, radius: Tensor, place: Tensor) -> Tensor:
        """Their least values at vectors within a radius of the middle, ``(E, R or 1, M)``.

        Args:
            middle, radius: ``(n, d)``, of which ``place`` names one for each entry.
        """
        if self.slopes is not None:
            ends = self._range_through(middle[place], radius[place], *self.slopes.of_entries())
            if self.same:
                return self._factored(self._products(*ends))
            return replace(self, slopes=None)._least(*ends, torch.arange(len(place), device=place.device))
        flat = replace(self, vector=self.vector.flatten(1, 2)[:, None], paired=False)
        return flat._least(middle[:, None], radius[:, None], place)[:, 0].unflatten(1, self.vector.shape[1:3])

    def negated(self) -> "Functionals":
        return Functionals(-self.explicit())

    def _least(self, middle: Tensor, radius: Tensor, place: Tensor) -> Tensor:
        """The least ``ω · v`` over ranges by each rule, ``(E, R, M)``; for those with one ω for all rules.

        Args:
            middle, radius: ``(n, R, d)``, of which ``place`` names one for each entry.
        """
        if self.same:
            found = self._products(middle[place], radius[place])
        elif compiled.usable(middle.device):
            from certgcl.bounds.compiled.entries import least_products

            found = least_products(self._functional(len(place)), place, self.vector[:, 0], middle, radius).unflatten(
                1, (middle.shape[1], self.number)
            )
        else:
            vector = self.vector if self.entry is None else self.vector[self.entry]
            found = (vector @ middle[place][..., None] - vector.abs() @ radius[place][..., None])[..., 0]
        return self._factored(found)

    def _functional(self, entries: int) -> Tensor:
        """The place of its ω, for every entry."""
        if self.entry is not None:
            return self.entry
        return torch.arange(entries, device=self.vector.device).clamp(max=len(self.vector) - 1)

    def _scaled_products(self, values: Tensor) -> Tensor:
        """Values at one vector for each entry, ``(E, d)``, after lines."""
        if not self.same:
            return (self.explicit() @ values[:, None, :, None])[..., 0]
        assert self.slopes is not None
        return self._factored(self._products(*(part * values[:, None] for part in self.slopes.of_entries())))

    def _products(self, middle: Tensor, radius: Tensor) -> Tensor:
        """``ω · middle - |ω| · radius`` for one ω and ``(E, R, d)``, ``(E, R, M)``."""
        omega = self.vector[0, 0]
        if not self.paired:
            return middle @ omega.T - radius @ omega.abs().T
        half = omega[: len(omega) // 2].T
        one, other = middle @ half, radius @ half.abs()
        return torch.cat([one - other, -one - other], dim=-1)

    def _factored(self, values: Tensor) -> Tensor:
        return values if self.factor is None else values * self.factor[:, None, None]
