"""Fitted methods in files: settings and the encoder's parameters, nothing that has to be unpickled."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from certgcl.encoder import GCNEncoder
from certgcl.errors import CheckpointError
from certgcl.files import load_tensors, refusing, save_tensors
from certgcl.randomness import Drawing, generator_on
from certgcl.regularizer import CompactnessRegularizer

if TYPE_CHECKING:
    from certgcl.methods.base import ContrastiveMethod

    Method = TypeVar("Method", bound=ContrastiveMethod)

_FORMAT = "certgcl-method-2"


def save_method(path: Path, method: "ContrastiveMethod") -> Path:
    """Write a fitted method; settings that a file cannot hold are refused before anything is written."""
    encoder, settings = method.fitted_encoder(), method.settings()
    rebuilt(type(method), settings)
    save_tensors(path, {"format": _FORMAT, "method": type(method).__name__, "settings": settings,
                        "features": encoder.conv1.in_channels, "encoder": encoder.state_dict()})
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
            raise CheckpointError(f"{path} with a {content['method']}", f"a {kind.__name__} was asked for",
                                  f"Use certgcl.{content['method']}.load(path)")
        method = rebuilt(names[content["method"]], content["settings"])
        with Drawing(generator_on("cpu", 0)):  # weights that are replaced at once
            encoder = GCNEncoder(content["features"], 2 * method.hidden, method.hidden, method.activation)
        encoder.load_state_dict(content["encoder"])
        method.encoder_ = encoder.eval()
        return method


def rebuilt(kind: "type[Method]", settings: dict[str, Any]) -> "Method":
    """A method from :meth:`certgcl.methods.base.ContrastiveMethod.settings`."""
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    if settings["regularizer"] is not None:
        settings["regularizer"] = CompactnessRegularizer.from_dict(settings["regularizer"])
    return kind(**settings)


def _with_subclasses(kind: "type[Method]") -> "list[type[Method]]":
    return [kind] + [deeper for subclass in kind.__subclasses__() for deeper in _with_subclasses(subclass)]
