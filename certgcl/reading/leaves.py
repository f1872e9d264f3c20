"""The modules a forward may call: those known by their exact type, and a user's own, whose forward is followed."""

from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn
from torch_geometric.nn import GCNConv, MessagePassing, Sequential
from torch_geometric.nn.sequential import Child

from certgcl.layers.activations import ACTIVATION_MODULES, EVAL, slope_of
from certgcl.layers.gcn import gcn_parameters
from certgcl.layers.lookup import class_attribute, instance_dict
from certgcl.layers.modules import check_call, check_unshadowed, described, held, modules_in
from certgcl.layers.trusted import TRUSTED
from certgcl.reading.attributes import attribute, unwrapped
from certgcl.reading.known import activated, handle, on_what
from certgcl.reading.nodes import Convolution, Place
from certgcl.reading.refusals import FORMULA, ONLY, refusal
from certgcl.reading.values import Bound, Symbol

if TYPE_CHECKING:
    from certgcl.reading.tracer import Tracer

_DROPOUTS = (nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout)
_NORMS = ("torch_geometric.nn.norm", "torch.nn.modules.batchnorm", "torch.nn.modules.normalization",
          "torch.nn.modules.instancenorm")
_STEPS = class_attribute(Sequential, "forward")
TRUSTED.add(_STEPS)
_LIBRARIES = ("torch.", "torch_geometric.")


def call_module(tracer: "Tracer", module: nn.Module, arguments: list[Any], keywords: dict[str, Any],
                place: Place) -> Any:
    """What a module returns."""
    name, cls = tracer.paths.get(id(module)) or place.text.split("(")[0], type(module)
    if id(module) in tracer.paths and not tracer.paths[id(module)]:
        name = ""  # the model itself
    check_call(module, name)
    if cls is GCNConv:
        return handle(_convolution, tracer, [module, name, *arguments], keywords, place)
    if issubclass(cls, MessagePassing):
        gcn_parameters(module, name) if issubclass(cls, GCNConv) else None
        raise refusal(f"{described(module, name)} in the model", place, "GCNConv must be its only message passing")
    if cls in ACTIVATION_MODULES:
        return handle(_activation, tracer, [module, name, *arguments], keywords, place)
    if cls in _DROPOUTS:
        return handle(_dropout, tracer, [module, name, *arguments], keywords, place)
    if cls is nn.Sequential:
        return handle(_sequence, tracer, [module, name, *arguments], keywords, place)
    return _follow(tracer, module, name, arguments, keywords, place)


def _convolution(tracer: "Tracer", place: Place, conv: nn.Module, name: str, x: Any, edge_index: Any,
                 edge_weight: Any = None) -> Symbol:
    weight, bias = gcn_parameters(conv, name)
    if edge_weight is not None:
        raise refusal(f"edge weights passed to {name}", place, "certgcl certifies unweighted graphs")
    if type(x) is not Symbol or type(edge_index) is not Symbol:
        raise refusal(f"{name or 'a GCNConv'} with features or edges that are not those of the run", place, FORMULA)
    node = Convolution(name or type(conv).__name__, x.node, edge_index.node, weight, bias, place)
    tracer.layers.append(node)
    return Symbol(node)


def _activation(tracer: "Tracer", place: Place, module: nn.Module, name: str, input: Any) -> Any:
    slope = slope_of(module, name)
    if type(module) is nn.Identity:
        return input
    inplace = instance_dict(module).get("inplace", False)
    return activated(tracer, place, input, slope, inplace)


def _dropout(tracer: "Tracer", place: Place, module: nn.Module, name: str, input: Any) -> Any:
    check_unshadowed(module, name)
    p = held(module, "p")
    if held(module, "training") is not False and not (type(p) in (int, float) and p == 0):
        raise refusal(f"{described(module, name)} in training mode", place, "a model must not be random", EVAL)
    return input


def _sequence(tracer: "Tracer", place: Place, module: nn.Module, name: str, input: Any) -> Any:
    check_unshadowed(module, name)
    for part in modules_in(module):
        input = tracer.call(part, [input], {}, place)
    return input


def _pyg_sequence(tracer: "Tracer", place: Place, module: nn.Module, name: str, *arguments: Any,
                  **keywords: Any) -> Any:
    """PyG writes a forward for each of its sequences, on the instance and on the class. Where it cannot, the class has
    the one that goes through the steps, which is known."""
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


def _follow(tracer: "Tracer", module: nn.Module, name: str, arguments: list[Any], keywords: dict[str, Any],
            place: Place) -> Any:
    """The forward of a class that is not known: in its source, unless it is one of torch's or PyG's."""
    cls, forward = type(module), class_attribute(type(module), "forward")
    if cls is Sequential:
        return handle(_pyg_sequence, tracer, [module, name, *arguments], keywords, place)
    if "forward" in instance_dict(module):
        raise refusal(f"forward replaced on {described(module, name)}", place,
                      "an instance must do what its class says", "Write it into the class")
    if type(forward) is not FunctionType:
        raise refusal(f"the forward of {described(module, name)}, which is no plain function", place)
    if cls.__module__.startswith(_NORMS):
        raise refusal(f"{described(module, name)} in the model", place, f"{FORMULA}, without normalization")
    if cls.__module__.startswith(_LIBRARIES) and not tracer.follows(forward):
        raise refusal(f"{described(module, name)}{on_what(arguments)}", place, ONLY)
    return tracer.call(Bound(module, forward), arguments, keywords, place)


