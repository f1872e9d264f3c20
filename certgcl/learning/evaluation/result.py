"""The accuracy of a linear probe on embeddings: the values, their mean and their spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from certgcl.arguments import items, real, shown
from certgcl.errors import EvaluationError
from certgcl.learning.evaluation.inputs import Masks, check_embeddings, check_labels, check_seeds
from certgcl.learning.evaluation.protocols import PROTOCOLS
from certgcl.runtime.out_of_memory import SMALLER, told_when_out_of_memory


@dataclass(frozen=True)
class Evaluation:
    """Micro- and Macro-F1 under one protocol, from 0 to 1, one value per seed.

    Args:
        protocol: a name in ``PROTOCOLS``.
        micro: Micro-F1 of each split or trained encoder; with one class per node it is the accuracy.
        macro: Macro-F1 of the same, the mean over the classes.
    """

    protocol: str
    micro: tuple[float, ...]
    macro: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.protocol, str):
            raise EvaluationError(f"protocol {shown(self.protocol)}", "it is a name", "Use certgcl.evaluate")
        rule, remedy = "values are shares from 0 to 1, as many of each and at least one", "Use certgcl.evaluate"
        for name in ("micro", "macro"):
            given = items(getattr(self, name), name, rule, remedy, error=EvaluationError)
            object.__setattr__(
                self,
                name,
                tuple(
                    real(value, name, lambda share: 0 <= share <= 1, rule, remedy, error=EvaluationError)
                    for value in given
                ),
            )
        if not self.micro or len(self.micro) != len(self.macro):
            raise EvaluationError(f"{len(self.micro)} and {len(self.macro)} values", rule, remedy)

    @property
    def micro_mean(self) -> float:
        return float(np.mean(self.micro))

    @property
    def micro_std(self) -> float:
        """The sample standard deviation (divided by n - 1); 0 for one value."""
        return _std(self.micro)

    @property
    def macro_mean(self) -> float:
        return float(np.mean(self.macro))

    @property
    def macro_std(self) -> float:
        """The sample standard deviation (divided by n - 1); 0 for one value."""
        return _std(self.macro)

    @classmethod
    def pooled(cls, evaluations: Sequence["Evaluation"]) -> "Evaluation":
        """The values of several evaluations in their order: of several trained encoders, say."""
        rule, remedy = "they are a list of Evaluation", "Use certgcl.evaluate"
        if not all(
            isinstance(one, Evaluation)
            for one in items(evaluations, "evaluations", rule, remedy, error=EvaluationError)
        ):
            raise EvaluationError(f"evaluations={shown(evaluations)}", rule, remedy)
        protocols = {evaluation.protocol for evaluation in evaluations}
        if len(protocols) != 1:
            raise EvaluationError(
                f"{len(evaluations)} evaluations under {sorted(protocols)}",
                "only values of one protocol can be pooled",
                "Evaluate all under the same",
            )
        return cls(
            protocols.pop(),
            tuple(value for one in evaluations for value in one.micro),
            tuple(value for one in evaluations for value in one.macro),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, ready for JSON."""
        return {
            "protocol": self.protocol,
            "micro": list(self.micro),
            "macro": list(self.macro),
            "micro_mean": self.micro_mean,
            "micro_std": self.micro_std,
            "macro_mean": self.macro_mean,
            "macro_std": self.macro_std,
        }

    def __str__(self) -> str:
        several = len(self.micro) > 1
        micro, macro = (
            f"{100 * mean:.1f}" + (f" ± {100 * std:.1f}" if several else "")
            for mean, std in ((self.micro_mean, self.micro_std), (self.macro_mean, self.macro_std))
        )
        return (
            f"Micro-F1 {micro}, Macro-F1 {macro}, protocol {self.protocol}, "
            f"{len(self.micro)} seed{'s' if several else ''}"
        )


def _std(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


@told_when_out_of_memory(SMALLER)
def evaluate(
    embeddings: Any, y: Any, protocol: str = "random-10-10-80", *, masks: Masks = None, seeds: int | Sequence[int] = 5
) -> Evaluation:
    """Fit a logistic regression to frozen embeddings and report its F1 on nodes it has not seen.

    Rows are divided by their Euclidean norm first, so that the scale of the embeddings has no effect. A class without
    a training node is never predicted, and has an F1 of 0 where it is tested.

    Args:
        embeddings: one row per node, a tensor or an array, ``(N, d)``.
        y: the class of every node, integers, ``(N,)``.
        protocol: a name in ``PROTOCOLS``.
        masks: boolean masks ``(train, validation, test)``, or a PyG ``Data`` that has them; for ``public`` and
            ``pot-released``; ignored otherwise.
        seeds: the seeds of the random splits, or their number: 5 stands for 0 … 4. The protocols with masks have one
            split; there the spread comes from several trained encoders, see :meth:`Evaluation.pooled`.

    Example::

        certgcl.evaluate(z, data.y, "public", masks=data)
    """
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise EvaluationError(f"protocol {shown(protocol)}", f"protocols are {', '.join(PROTOCOLS)}", "Pick one")
    x = check_embeddings(embeddings)
    scores = PROTOCOLS[protocol](x, check_labels(y, len(x)), masks, check_seeds(seeds))
    return Evaluation(protocol, tuple(micro for micro, _ in scores), tuple(macro for _, macro in scores))
