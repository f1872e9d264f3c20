"""Models as bounds see them: networks of layers, the ways layers mix nodes, and activations."""

from certgcl.models.activations import Activation, Lines, SlopeRule
from certgcl.models.aggregations import AGGREGATIONS, Aggregation, Diffusion, Local, Mean, Sum, SymmetricNorm
from certgcl.models.gcn_network import gcn_network
from certgcl.models.layer import Layer, Term
from certgcl.models.network import GraphNetwork
from certgcl.models.registry import ACTIVATIONS, register_activation
from certgcl.models.two_piece import TwoPieceLinear

__all__ = [
    "ACTIVATIONS",
    "AGGREGATIONS",
    "Activation",
    "Aggregation",
    "Diffusion",
    "GraphNetwork",
    "Layer",
    "Lines",
    "Local",
    "Mean",
    "SlopeRule",
    "Sum",
    "SymmetricNorm",
    "Term",
    "TwoPieceLinear",
    "gcn_network",
    "register_activation",
]
