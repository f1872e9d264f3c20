"""Contrastive methods as estimators, and the parts they share."""

from certgcl.learning.methods.base import ContrastiveMethod
from certgcl.learning.methods.costa import COSTA
from certgcl.learning.methods.gca import GCA
from certgcl.learning.methods.grace import GRACE
from certgcl.learning.methods.graphcl import GraphCL
from certgcl.learning.methods.progcl import ProGCL

METHODS: dict[str, type[ContrastiveMethod]] = {"grace": GRACE, "gca": GCA, "progcl": ProGCL, "costa": COSTA}
"""The estimators of nodes by the names that presets and the command line use."""

GRAPH_METHODS: dict[str, type[GraphCL]] = {"graphcl": GraphCL}
"""The same of whole graphs."""

__all__ = ["COSTA", "GCA", "GRACE", "GRAPH_METHODS", "METHODS", "ContrastiveMethod", "GraphCL", "ProGCL"]
