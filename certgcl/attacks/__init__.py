"""The search for drops that hurt a node most: upper values of the worst case, and their witnesses.

It knows nothing of the bounds, which it puts to the test.
"""

from certgcl.attacks.descent import Search
from certgcl.attacks.field import Field, SearchSpace

__all__ = ["Field", "Search", "SearchSpace"]
