"""Fitted methods in files: settings and the encoder's parameters, or the network of a user's encoder; nothing that has
to be unpickled."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from certgcl.errors import CheckpointError
from certgcl.files.atomic import load_tensors, refusing, save_tensors
from certgcl.learning.methods.encoders import SavedEncoder
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.models.gcn_encoder import GCNEncoder
from certgcl.models.storage import meta_of, network_from
from certgcl.runtime.randomness import PrivateRandomness, generator_on

if TYPE_CHECKING:
    from certgcl.learning.methods.base import ContrastiveMethod

    Method = TypeVar("Method", bound=ContrastiveMethod)

_FORMAT = "certgcl-method-3"


def save_method(path: Path, method: "ContrastiveMethod") -> Path:
    """Write a fitted method; settings that a file cannot hold raise an error before anything is written."""
    encoder, settings = method.fitted_encoder(), method.settings()
    rebuilt(type(method), settings)
    if isinstance(encoder, GCNEncoder) and method.encoder is None:
        trained: dict[str, Any] = {"encoder": encoder.state_dict()}
    else:
        network = method.network().copied()
        trained = {"network": meta_of(network), "tensors": dict(network.named_tensors())}
    save_tensors(
        path,
        {
            "format": _FORMAT,
            "method": type(method).__name__,
            "settings": settings,
            "features": method.n_features_in_,
            **trained,
        },
    )
    return path


def load_method(path: Path, kind: "type[Method]") -> "Method":
    """A method of ``kind`` (or of a subclass of it) from a file."""
    content_of = "it must be a whole file of a fitted method"
    with refusing(path, CheckpointError, content_of, "Write one with method.save(path)"):
        content = load_tensors(path)
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}")
        names = {found.__name__: found for found in _with_subclasses(kind)}
        if content["method"] not in names:
            raise CheckpointError(
                f"{path} with a {content['method']}",
                f"a {kind.__name__} was requested",
                f"Use certgcl.{content['method']}.load(path)",
            )
        method = rebuilt(names[content["method"]], content["settings"])
        method.n_features_in_ = content["features"]
        if "network" in content:
            method.encoder_ = network_from(content["network"], content["tensors"])
            return method
        with PrivateRandomness(generator_on("cpu", 0)):  # initial weights that are overwritten at once
            encoder = GCNEncoder(content["features"], 2 * method.hidden, method.hidden, method.activation)
        encoder.load_state_dict(content["encoder"])
        method.encoder_ = encoder.eval()
        return method


def rebuilt(kind: "type[Method]", settings: dict[str, Any]) -> "Method":
    """A method from :meth:`certgcl.learning.methods.base.ContrastiveMethod.settings`."""
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    if settings["regularizer"] is not None:
        settings["regularizer"] = CompactnessRegularizer.from_dict(settings["regularizer"])
    if settings["encoder"] is not None:
        settings["encoder"] = SavedEncoder(str(settings["encoder"]))
    return kind(**settings)


def _with_subclasses(kind: "type[Method]") -> "list[type[Method]]":
    return [kind] + [deeper for subclass in kind.__subclasses__() for deeper in _with_subclasses(subclass)]
