"""Modules for the audit to read, bound and run: honest ones, odd ones, and ones that lie about what they are."""

from verification.zoo import (
    activations,
    chance,
    convolutions,
    disguises,
    edges,
    honest,
    layers,
    memory,
    networks,
    objects,
    odd,
    parts,
    surroundings,
)
from verification.zoo.base import HONEST, MALICIOUS, ODD, Entry

__all__ = [
    "HONEST",
    "MALICIOUS",
    "ODD",
    "Entry",
    "activations",
    "chance",
    "convolutions",
    "disguises",
    "edges",
    "honest",
    "layers",
    "memory",
    "networks",
    "objects",
    "odd",
    "parts",
    "surroundings",
]
