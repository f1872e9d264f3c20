"""The modules that a forward may call: those recognised by exact type, and a user's own, whose forward is followed."""

from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn
from torch_geometric.nn import JumpingKnowledge, MessagePassing, Sequential
from torch_geometric.nn.sequential import Child

from certgcl.arguments import shown
from certgcl.errors import EncoderError
from certgcl.models.layers.activations import EVAL, SLOPES, SMOOTH, activation_of
from certgcl.models.layers.formula import Edges, Position, tensor_name
from certgcl.models.layers.lookup import bases, class_attribute, entry, instance_dict, is_a
from certgcl.models.layers.modules import check_call, check_unshadowed, described, held, modules_in
from certgcl.models.layers.site import CallSite
from certgcl.models.layers.table import CONVOLUTIONS, DROPOUTS, PARTS, SOFTMAX
from certgcl.models.layers.trusted import TRUSTED
from certgcl.models.reading.activation_functions import activated, selu
from certgcl.models.reading.arithmetic import values_of
from certgcl.models.reading.attributes import attribute, unwrapped
from certgcl.models.reading.known import handle, on_what
from certgcl.models.reading.refusals import ATTENTION, BUILD, NORMS, refusal
from certgcl.models.reading.refusals import CONVOLUTIONS as KNOWN
from certgcl.models.reading.refusals import PARTS as RULE
from certgcl.models.reading.tensor_functions import log_softmax, softmax
from certgcl.models.reading.values import Bound, Symbol
from certgcl.models.registry import OWN

if TYPE_CHECKING:
    from certgcl.models.reading.tracer import Tracer

_NORMS = (
    "torch_geometric.nn.norm",
    "torch.nn.modules.batchnorm",
    "torch.nn.modules.normalization",
    "torch.nn.modules.instancenorm",
)
_IN_PLACE = (nn.ReLU, nn.LeakyReLU, nn.RReLU, nn.ELU, nn.SELU, nn.SiLU)  # others ignore such a setting
_STEPS = class_attribute(Sequential, "forward")
TRUSTED.add(_STEPS)
_LIBRARIES = ("torch.", "torch_geometric.")


def call_module(
    tracer: "Tracer", module: nn.Module, arguments: list[Any], keywords: dict[str, Any], place: Position
) -> Any:
    """The result of a module."""
    name, cls = tracer.paths.get(id(module)) or place.text.split("(")[0], type(module)
    if id(module) in tracer.paths and not tracer.paths[id(module)]:
        name = ""  # the model itself
    check_call(module, name)
    site = CallSite(module, name or cls.__name__, place, tracer)
    if entry(CONVOLUTIONS, cls) is not None:
        return handle(_convolution, tracer, [site, *arguments], keywords, place)
    if entry(PARTS, cls) is not None:
        return handle(_part, tracer, [site, *arguments], keywords, place)
    if is_a(module, *SLOPES, *SMOOTH, nn.SELU) or entry(OWN, cls) is not None:
        return handle(_activation, tracer, [site, *arguments], keywords, place)
    if is_a(module, *SOFTMAX):
        return handle(_softmax, tracer, [site, *arguments], keywords, place)
    if is_a(module, *DROPOUTS):
        return handle(_dropout, tracer, [site, *arguments], keywords, place)
    if cls is nn.Sequential:
        return handle(_sequence, tracer, [site, *arguments], keywords, place)
    if cls is Sequential:
        return handle(_pyg_sequence, tracer, [module, name, *arguments], keywords, place)
    return _follow(tracer, module, name, arguments, keywords, place)


def _convolution(
    tracer: "Tracer",
    place: Position,
    site: CallSite,
    x: Any,
    edge_index: Any,
    edge_weight: Any = None,
    size: Any = None,
) -> Symbol:
    if edge_weight is not None or size is not None:
        raise refusal(
            f"edge weights or sizes passed to {site.name}",
            place,
            "certgcl certifies unweighted graphs",
            "Leave them out",
        )
    source = values_of(x, place, f"{site.name} on features that are not those of the run:")
    edges = edge_index.node if type(edge_index) is Symbol else None
    if not isinstance(edges, Edges):
        found = "that are not those of the run" if edges is None else tensor_name(edges)
        raise refusal(
            f"{site.name} with the edges {found}",
            place,
            "every layer must get edge_index as it is",
            "Look for changed edges",
        )
    return Symbol(CONVOLUTIONS[type(site.module)](site, source, edges))


def _part(tracer: "Tracer", place: Position, site: CallSite, input: Any) -> Symbol:
    check_unshadowed(site.module, site.name)
    return Symbol(PARTS[type(site.module)](site, values_of(input, place, site.name)))


def _activation(tracer: "Tracer", place: Position, site: CallSite, input: Any) -> Any:
    module = site.module
    check_unshadowed(module, site.name)
    if type(module) is nn.Identity:
        return input
    inplace = is_a(module, *_IN_PLACE) and site.setting("inplace")
    if type(module) is nn.SELU:
        return selu(tracer, place, input, inplace)
    activation = entry(OWN, type(module)) or activation_of(module, site.name)
    if type(module) is nn.PReLU:
        site.parameter("weight")
    return activated(tracer, place, input, activation, inplace)


def _softmax(tracer: "Tracer", place: Position, site: CallSite, input: Any) -> Symbol:
    check_unshadowed(site.module, site.name)
    known = log_softmax if type(site.module) is nn.LogSoftmax else softmax
    return known(tracer, place, input, site.setting("dim"))


def _dropout(tracer: "Tracer", place: Position, site: CallSite, input: Any) -> Any:
    check_unshadowed(site.module, site.name)
    p = site.setting("p")
    if site.setting("training") is not False and not (is_a(p, int, float) and p == 0):
        raise refusal(
            f"{described(site.module, site.name)} in training mode", place, "a model must not be random", EVAL
        )
    return input


def _sequence(tracer: "Tracer", place: Position, site: CallSite, input: Any) -> Any:
    check_unshadowed(site.module, site.name)
    for part in modules_in(site.module):
        input = tracer.call(part, [input], {}, place)
    return input


def _pyg_sequence(
    tracer: "Tracer", place: Position, module: nn.Module, name: str, *arguments: Any, **keywords: Any
) -> Any:
    """PyG generates a forward for each of its sequences, on the instance and on the class. If it cannot, the class has
    the one that loops over the steps, which is known."""
    check_unshadowed(module, name, allowed=("forward",))
    own = unwrapped(instance_dict(module).get("forward", class_attribute(Sequential, "forward")))
    if type(own) is Bound and own.owner is module:
        return tracer.follow(own.function, [module, *arguments], keywords, place)
    if own is not _STEPS:
        raise refusal(f"forward replaced on {described(module, name)}", place)
    parameters = held(module, "signature").param_dict
    values, output = {**dict(zip(parameters, arguments, strict=False)), **keywords}, None
    for step in held(module, "_children"):
        if type(step) is not Child or any(name not in values for name in step.param_names):
            raise refusal(f"the steps of {described(module, name)}", place)
        called = attribute(module, step.name, place)
        output = tracer.call(called, [values[name] for name in step.param_names], {}, place)
        outputs = (output,) if len(step.return_names) == 1 else output
        if type(outputs) is not tuple or len(outputs) != len(step.return_names):
            raise refusal(f"{step.name} with other than {len(step.return_names)} outputs", place)
        values |= zip(step.return_names, outputs, strict=True)
    return output


def _follow(
    tracer: "Tracer", module: nn.Module, name: str, arguments: list[Any], keywords: dict[str, Any], place: Position
) -> Any:
    """The forward of an unknown class: followed in its source, unless it is one of torch's or PyG's."""
    cls, forward = type(module), class_attribute(type(module), "forward")
    if "forward" in instance_dict(module):
        raise refusal(
            f"forward replaced on {described(module, name)}",
            place,
            "an instance must do what its class says",
            "Write it into the class",
        )
    if type(forward) is not FunctionType:
        raise refusal(f"the forward of {described(module, name)}, which is not a plain function", place)
    if (
        issubclass(cls, MessagePassing)
        or (cls.__module__.startswith(_LIBRARIES) and not tracer.follows(forward))
        or (cls is JumpingKnowledge and not (type(mode := held(module, "mode")) is str and mode == "cat"))
    ):
        raise _not_known(module, name, arguments, place)
    return tracer.call(Bound(module, forward), arguments, keywords, place)


def _not_known(module: nn.Module, name: str, arguments: list[Any], place: Position) -> EncoderError:
    """The error for a module of torch or PyG, or for any convolution, with advice."""
    cls, found = type(module), described(module, name)
    parent = next((base for base in bases(cls) if entry(CONVOLUTIONS, base) is not None), None)
    if parent is not None:
        return refusal(
            f"{found}, a subclass of {parent.__name__}",
            place,
            f"layers must be torch_geometric.nn.{parent.__name__} itself",
            f"Use {parent.__name__}",
        )
    if issubclass(cls, MessagePassing):
        attends = any(part in cls.__name__ for part in ("GAT", "Transformer", "Attention", "AGNN"))
        rule = f"{ATTENTION}; known are {KNOWN}" if attends else f"known convolutions are {KNOWN}"
        return refusal(f"{found} in the model", place, rule, "Use one of them")
    if cls.__module__.startswith(_NORMS):
        return refusal(f"{found} in the model", place, NORMS, "Use BatchNorm, or none")
    if cls is JumpingKnowledge:
        return refusal(
            f"{found} with mode {shown(held(module, 'mode'))}",
            place,
            "jumping knowledge puts channels side by side, takes the last or sums",
            'Use jk="cat" or "last"',
        )
    return refusal(f"{found}{on_what(arguments)}", place, RULE, BUILD)
