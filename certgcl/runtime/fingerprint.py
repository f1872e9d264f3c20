"""Whether a tensor still has the same contents, bit by bit, at the cost of one pass over its memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

WORD = 8  # bytes


@dataclass(frozen=True, eq=False)
class Imprint:
    """The memory of a dense tensor that is mostly zero: the 8-byte words that are not zero, and the bytes after the
    last whole word.

    Args:
        places, words: of the words that are not zero, ``(W,)``.
        rest: the bytes after the last whole word.
    """

    places: Tensor
    words: Tensor
    rest: Tensor

    @classmethod
    def of(cls, tensor: Tensor, entries: Tensor) -> "Imprint":
        """Of a tensor whose entries at these flat positions, in increasing order, are all that are not zero."""
        words, rest = _memory(tensor)
        places = torch.unique_consecutive(entries * tensor.element_size() // WORD)
        places = places[places < len(words)]
        if int(torch.count_nonzero(words)) != len(places):  # the bits of negative zeros are not zero
            places = words.nonzero()[:, 0]
        return cls(places, words[places], rest.clone())

    def is_of(self, tensor: Tensor) -> bool:
        """Exact: the number of nonzero words is the same, and so are the words that were nonzero."""
        words, rest = _memory(tensor)
        if len(self.places) and int(self.places[-1]) >= len(words):
            return False
        return (
            int(torch.count_nonzero(words)) == len(self.places)
            and torch.equal(words[self.places], self.words)
            and torch.equal(rest, self.rest)
        )


def _memory(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """The values in order as 64-bit words, and the remaining bytes."""
    data = tensor.detach().contiguous().view(-1).view(torch.uint8)
    if data.storage_offset() % WORD:
        data = data.clone()
    whole = data.numel() // WORD * WORD
    return data[:whole].view(torch.int64), data[whole:]
