"""BatchNorm in eval mode: ``g (h - mean) + b`` with ``g = weight / sqrt(var + eps)``."""

import math

from torch import nn

from certgcl.errors import EncoderError
from certgcl.models.layers.activations import EVAL
from certgcl.models.layers.formula import NodeValues, Summand
from certgcl.models.layers.lookup import is_a
from certgcl.models.layers.modules import described
from certgcl.models.layers.site import CallSite


def batch_norm(site: CallSite, source: NodeValues) -> NodeValues:
    """Two layers, first the difference and then the product: in ``b - g mean`` the sizes of both terms, by which
    rounding errors are measured, would be lost. g is computed in float64."""
    found = described(site.module, site.name)
    if site.setting("training") is not False:
        raise EncoderError(
            f"{found} in training mode", "its statistics must be fixed, not computed from the graph", EVAL
        )
    eps = site.setting("eps")
    if site.setting("running_mean") is None or site.setting("running_var") is None:
        raise EncoderError(
            f"{found} without running statistics",
            "it must not depend on all nodes at once",
            "Use track_running_stats=True",
        )
    mean, variance = site.parameter("running_mean"), site.parameter("running_var")
    weight, bias = site.optional("weight"), site.optional("bias")
    if any(tensor is not None and tensor.shape != (source.width,) for tensor in (mean, variance, weight, bias)) or (
        not is_a(eps, int, float) or not math.isfinite(eps) or not bool((variance.double() + eps > 0).all())
    ):
        raise EncoderError(
            f"{found} on {source.width} channels",
            "it needs a mean and a positive variance of each",
            "Check its number of features and its statistics",
        )
    scale = (variance.double() + eps).sqrt()
    gain = 1 / scale if weight is None else weight.double() / scale
    centred = site.combined([Summand(source)], source.width, -mean)
    return site.combined([Summand(centred, gain)], source.width, bias)


def pyg_batch_norm(site: CallSite, source: NodeValues) -> NodeValues:
    """PyG's BatchNorm contains one of torch's, and in eval mode calls it or computes the same."""
    if type(site.setting("allow_single_element")) is not bool:
        raise EncoderError(
            f"allow_single_element of {described(site.module, site.name)}",
            "it must be True or False",
            "Build the layer with its defaults",
        )
    return batch_norm(site.part("module", nn.BatchNorm1d), source)
