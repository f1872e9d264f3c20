"""Measures of a certificate that can be compared between encoders: none of them grows with the embeddings."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from certgcl.formatting import percent

if TYPE_CHECKING:
    from certgcl.certify.certificate import Certificate


@dataclass(frozen=True)
class Measures:
    """Measures that do not change if all embeddings are multiplied by the same number.

    Args:
        positive: the share of the values that are proved to stay above zero.
        kept: ``Σ lower / Σ nominal``, the share of the clean value that no admissible drop takes away. The ratio of the
            sums and not the mean of ratios, which a single node with a clean value near zero would decide. Negative if
            the sum of the bounds is; None if the sum of the clean values is not positive.
        over_norm: the mean of ``lower`` divided by the mean norm of the clean embeddings; None if no norms are known,
            or all are zero.
        nominal_over_norm: the same of the clean values.
    """

    positive: float
    kept: float | None
    over_norm: float | None
    nominal_over_norm: float | None

    @classmethod
    def of(cls, certificate: "Certificate") -> "Measures":
        asked = certificate.asked
        values = certificate.lower[asked].double(), certificate.nominal[asked].double()
        lower, nominal = (float(value.mean()) for value in values)
        norm = 0.0 if certificate.norms is None else float(certificate.norms.double().mean())
        known = 0 < norm < math.inf
        return cls(
            certificate.share_positive,
            kept_share(*values),
            lower / norm if known else None,
            nominal / norm if known else None,
        )

    def to_dict(self) -> dict[str, float | None]:
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """The measures other than the share proved, by name, as :class:`~certgcl.Certificate` prints it."""
        rows = [] if self.kept is None else [("kept", f"{percent(self.kept)} of the clean value")]
        if self.over_norm is not None:
            rows.append(
                (
                    "per norm",
                    f"{self.over_norm:.4g}, clean {self.nominal_over_norm:.4g}: means over the mean "
                    "norm of the embeddings",
                )
            )
        return rows


def kept_share(lower: Tensor, nominal: Tensor) -> float | None:
    """``Σ lower / Σ nominal``; None if the sum of the clean values is not positive."""
    whole = float(nominal.double().sum())
    return float(lower.double().sum()) / whole if whole > 0 else None
