"""Search for the drops that hurt a node most: upper bounds of the worst case, with their witnesses.

It shares no code with the bounds, which it tests.
"""

from certgcl.attacks.descent import Search
from certgcl.attacks.field import Field, SearchSpace

__all__ = ["Field", "Search", "SearchSpace"]
