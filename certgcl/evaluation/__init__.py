"""Linear probes of frozen embeddings under protocols that have names, and the comparison of two runs."""

from certgcl.evaluation.paired import PairedTest, compare
from certgcl.evaluation.protocols import PROTOCOLS
from certgcl.evaluation.result import Evaluation, evaluate

__all__ = ["PROTOCOLS", "Evaluation", "PairedTest", "compare", "evaluate"]
