"""The definition of one training run of an experiment."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from certgcl.errors import InputError
from certgcl.experiments.variants import regularizer
from certgcl.learning.methods import GCA, GRACE, METHODS, ContrastiveMethod
from certgcl.learning.methods.centrality import Centrality
from certgcl.learning.presets import Preset

Augmentation: TypeAlias = Literal["random"] | Centrality


@dataclass(frozen=True)
class Recipe:
    """One training run: the method, one of the variants, and the differences from the preset.

    Args:
        method: a name in :data:`certgcl.learning.methods.METHODS`, whose preset is taken.
        variant: a name in :data:`certgcl.experiments.variants.VARIANTS`.
        kappa: the share κ of the regularizer; the preset's by default.
        augmentation: how edges are dropped: GRACE's ``random``, or a centrality of GCA; the method's own by default.
    """

    method: str
    variant: str
    seed: int
    kappa: float | None = None
    augmentation: Augmentation | None = None

    def estimator(self, preset: Preset, epochs: int | None = None) -> ContrastiveMethod:
        """The method, ready to be trained."""
        kind: type[ContrastiveMethod] = METHODS[self.method]
        settings: dict[str, Any] = preset.settings() | ({} if epochs is None else {"epochs": epochs})
        if self.augmentation is not None:
            if kind not in (GRACE, GCA):
                raise InputError(
                    f"augmentations of {self.method}",
                    "only GRACE and GCA differ in nothing else",
                    "Use grace or gca",
                )
            random = self.augmentation == "random"
            kind, settings = (GRACE, settings) if random else (GCA, settings | {"centrality": self.augmentation})
        term = regularizer(self.variant, preset, **({} if self.kappa is None else {"kappa": self.kappa}))
        return kind(**settings, seed=self.seed, regularizer=term)

    def __str__(self) -> str:
        kappa = [] if self.kappa is None else [f"κ {self.kappa:g}"]
        augmentation = [] if self.augmentation is None else [f"{self.augmentation} drops"]
        return ", ".join([f"{self.method} {self.variant} seed {self.seed}", *kappa, *augmentation])
