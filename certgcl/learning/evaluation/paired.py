"""Whether one run is significantly better than another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_rel

from certgcl.errors import EvaluationError
from certgcl.learning.evaluation.inputs import as_array
from certgcl.learning.evaluation.result import Evaluation

_ROUNDING = 64 * float(np.finfo(float).eps)  # relative; differences closer than this are equal


@dataclass(frozen=True)
class PairedTest:
    """A paired t-test of ``a - b``.

    If all differences are equal there is no variance to test against: equal runs have ``t = 0`` and ``p = 1``, a
    constant difference has ``t = ±inf`` and ``p = 0``.

    Args:
        difference: the mean of ``a - b``.
        t: the statistic, ``mean / (std / sqrt(n))``.
        p: the chance of such a ``|t|`` if the true mean is 0 (two-sided).
        p_greater: the chance of such a ``t`` or a greater one (one-sided: small if a is greater than b).
        n: the number of pairs.
    """

    difference: float
    t: float
    p: float
    p_greater: float
    n: int

    def __str__(self) -> str:
        return (
            f"mean difference {self.difference:.4g}, t = {self.t:.3g}, p = {self.p:.3g} "
            f"(one-sided {self.p_greater:.3g}), {self.n} pairs"
            f"{', all differences equal' if np.isinf(self.t) else ''}"
        )


def compare(a: Evaluation | Sequence[float], b: Evaluation | Sequence[float]) -> PairedTest:
    """A paired t-test between two runs: of the Micro-F1 of two evaluations, or of any numbers, pair by pair.

    The two values of a pair share their seed. Random splits of one graph share nodes, which makes their p-value
    optimistic; pairs of separately trained encoders are better.
    """
    if isinstance(a, Evaluation) and isinstance(b, Evaluation) and a.protocol != b.protocol:
        raise EvaluationError(
            f"evaluations under {a.protocol} and {b.protocol}",
            "only values of the same protocol can be compared",
            "Evaluate both under the same",
        )
    first, second = _values(a), _values(b)
    if len(first) != len(second) or len(first) < 2:
        raise EvaluationError(
            f"runs of {len(first)} and {len(second)} values",
            "both need the same number, two or more",
            "Use the same seeds for both",
        )
    n, differences = len(first), first - second
    mean, rounding = float(differences.mean()), _ROUNDING * float(np.abs([first, second]).max())
    if np.ptp(differences) > rounding:
        test, greater = ttest_rel(first, second), ttest_rel(first, second, alternative="greater")
        return PairedTest(mean, float(test.statistic), float(test.pvalue), float(greater.pvalue), n)
    if abs(mean) <= rounding:
        return PairedTest(0.0, 0.0, 1.0, 0.5, n)
    return PairedTest(mean, float(np.copysign(np.inf, mean)), 0.0, 0.0 if mean > 0 else 1.0, n)


def _values(run: Evaluation | Sequence[float]) -> np.ndarray:
    values = as_array(run.micro if isinstance(run, Evaluation) else run, "a run")
    if values.dtype.kind not in "fiu" or values.ndim != 1 or not np.isfinite(values).all():
        raise EvaluationError(
            f"a run of dtype {values.dtype} and shape {values.shape}",
            "it must be a sequence of finite numbers",
            "Leave out what is not",
        )
    return values.astype(np.float64)
