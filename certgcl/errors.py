"""The errors that certgcl raises. Every message names what was found, the rule it breaks and the way out."""


class CertgclError(Exception):
    """Root of every error that certgcl raises on purpose.

    Args:
        found: what was given, with its value.
        rule: what certgcl requires instead.
        remedy: what to do about it.
    """

    def __init__(self, found: str, rule: str, remedy: str) -> None:
        super().__init__(f"{found}: {rule}. {remedy}")
        self.found = found
        self.rule = rule
        self.remedy = remedy

    def __reduce__(self) -> tuple[type["CertgclError"], tuple[str, str, str]]:
        return type(self), (self.found, self.rule, self.remedy)


class InputError(CertgclError, ValueError):
    """An argument that cannot be used."""


class GraphError(InputError):
    """A graph that is not simple and undirected, or features that do not fit it."""


class BudgetError(InputError):
    """A budget that is not a count of edges, or does not fit the graph."""


class EncoderError(InputError):
    """A model that has parts certgcl does not know, or that cannot be read as a network."""


class DirectionError(InputError):
    """Directions whose shape or values do not fit the encoder and the anchors."""


class ClassifierError(InputError):
    """A classifier whose prediction is not known to be the class of the largest linear score."""


class MethodError(InputError):
    """A bound method that does not exist or does not apply."""


class DatasetError(InputError):
    """A dataset that does not exist, or whose files are missing or cannot be read."""


class NotFittedError(InputError):
    """A method that is not fitted, asked for something that only a fitted one has."""


class EvaluationError(InputError):
    """Embeddings, labels, masks or runs that cannot be evaluated or compared, or an unknown protocol."""


class CertificateError(InputError):
    """A file that does not hold a certificate."""


class ShardError(InputError):
    """A folder of shards that is incomplete, or that answers another question."""


class CheckpointError(InputError):
    """A run folder that cannot be resumed: it is damaged, or belongs to another run."""


class ReportError(InputError):
    """A folder without anything to report on, or parts of a report that do not belong together."""


class FileSizeError(InputError):
    """A file that would take more memory than it may; nothing of it is unpacked."""


class LockedError(CertgclError):
    """A run, a shard or a graph that another process or thread is writing at this moment."""


class BoundError(CertgclError, ArithmeticError):
    """A computed bound that is not finite, or lies above a value it should bound. Never returned as certified."""


class TrainingError(CertgclError, ArithmeticError):
    """A training run whose loss or weights are no longer finite. The last good checkpoint is kept."""


class WorkerError(CertgclError):
    """A process of a search that ended before it had an answer."""


class OutOfMemoryError(CertgclError, MemoryError):
    """More memory needed than there is, or than the process may use."""
