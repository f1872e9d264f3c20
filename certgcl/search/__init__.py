"""A search for the drops that hurt a node most. It knows nothing of the bounds, which it puts to the test."""

from certgcl.search.descent import Search, greedy_drop
from certgcl.search.field import ReceptiveField

__all__ = ["ReceptiveField", "Search", "greedy_drop"]
