"""Linear probes of frozen embeddings under named protocols, and the comparison of two runs."""

from certgcl.learning.evaluation.paired import PairedTest, compare
from certgcl.learning.evaluation.protocols import PROTOCOLS
from certgcl.learning.evaluation.result import Evaluation, evaluate

__all__ = ["PROTOCOLS", "Evaluation", "PairedTest", "compare", "evaluate"]
