"""How many sets of changes there are."""

from math import comb

ENOUGH = 1 << 62  # more sets than anyone tries


def number_of_subsets(items: int, most: int) -> int:
    """How many sets of at most ``most`` items there are; any number above ``ENOUGH`` if there are more than that.

    Counting to the end can take minutes: the number of all sets of a million pairs has 300,000 digits.
    """
    number = 0
    for size in range(min(items, most) + 1):
        number += comb(items, size)
        if number > ENOUGH:
            break
    return number
