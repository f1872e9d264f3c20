"""Contrastive methods as estimators, and the parts they share."""

from certgcl.learning.methods.base import ContrastiveMethod
from certgcl.learning.methods.costa import COSTA
from certgcl.learning.methods.gca import GCA
from certgcl.learning.methods.grace import GRACE
from certgcl.learning.methods.progcl import ProGCL

METHODS: dict[str, type[ContrastiveMethod]] = {"grace": GRACE, "gca": GCA, "progcl": ProGCL, "costa": COSTA}
"""The estimators by the names that presets and the command line use."""

__all__ = ["COSTA", "GCA", "GRACE", "METHODS", "ContrastiveMethod", "ProGCL"]
