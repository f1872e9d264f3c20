"""Slopes of a row's lines times the features of its neighbours, slot by slot."""

from certgcl.bounds.compiled.kernels.numerics import Array, compiled


@compiled
def products(part: int, parts: int, line: Array, target: Array, slopes: Array, features: Array, out: Array) -> None:
    """``out[s, end] = slopes[line[s], end] · features[target[s]]`` for both ends of the range, ``(S, 2, d1)``."""
    for slot in range(part, len(line), parts):
        feature = features[target[slot]]
        for end in range(2):
            slope, result = slopes[line[slot], end], out[slot, end]
            for c in range(len(feature)):
                result[c] = slope[c] * feature[c]


@compiled
def gradients(
    part: int,
    parts: int,
    line: Array,
    target: Array,
    slopes: Array,
    features: Array,
    gradient: Array,
    of_slopes: Array,
    of_features: Array,
) -> None:
    """Adds the gradients to the last two, for some of the channels."""
    width = features.shape[1]
    columns = slice(width * part // parts, width * (part + 1) // parts)
    for slot in range(len(line)):
        feature, of_feature = features[target[slot], columns], of_features[target[slot], columns]
        for end in range(2):
            slope, given = slopes[line[slot], end, columns], gradient[slot, end, columns]
            of_slope = of_slopes[line[slot], end, columns]
            for c in range(len(feature)):
                of_slope[c] += given[c] * feature[c]
            for c in range(len(feature)):
                of_feature[c] += given[c] * slope[c]
