"""Modules for the audit to read, bound and run: honest ones, odd ones, and ones that lie about what they are."""

from verification.zoo import activations, chance, disguises, edges, honest, layers, memory, objects, odd, surroundings
from verification.zoo.base import HONEST, MALICIOUS, ODD, Entry

__all__ = ["HONEST", "MALICIOUS", "ODD", "Entry", "activations", "chance", "disguises", "edges", "honest", "layers",
           "memory", "objects", "odd", "surroundings"]
