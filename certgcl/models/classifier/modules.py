"""Linear classifiers in torch: ``nn.Linear``, sequences of them, and plain weights."""

from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from certgcl.errors import ClassifierError
from certgcl.models.classifier.affine import Affine
from certgcl.models.classifier.scikit import check_plain

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_DROPOUTS = (nn.Dropout, nn.AlphaDropout)


def read_module(module: nn.Module) -> tuple[Affine, ...]:
    """The steps of an ``nn.Linear``, or of an ``nn.Sequential`` of them; exact types, without hooks."""
    if type(module) is nn.Sequential:
        _check_unchanged(module)
        return tuple(step for part in module for step in read_module(part))
    if type(module) is nn.Identity or (type(module) in _DROPOUTS and not module.training):
        _check_unchanged(module)
        return ()
    if type(module) is not nn.Linear:
        way_out = "Call eval() first" if type(module) in _DROPOUTS else "Use one nn.Linear, or pass its weight and bias"
        raise ClassifierError(
            f"a {type(module).__name__} as classifier, or as part of one",
            "only nn.Linear is linear (not a class that inherits from it, nor a random layer)",
            way_out,
        )
    _check_unchanged(module)
    return (Affine.of(module.weight, module.bias),)


def read_tensors(classifier: Any) -> tuple[Affine, ...]:
    """Weights ``(classes, d)``, or a pair of them and intercepts ``(classes,)``."""
    if isinstance(classifier, tuple) and len(classifier) != 2:
        raise ClassifierError(
            f"a tuple of {len(classifier)} as classifier",
            "a pair has weights and intercepts",
            "Pass (weights, intercepts)",
        )
    vectors, intercepts = classifier if isinstance(classifier, tuple) else (classifier, None)
    odd = any(isinstance(part, Tensor) and (part.is_nested or part.is_meta) for part in (vectors, intercepts))
    if odd or not isinstance(vectors, (Tensor, np.ndarray, list)):
        raise ClassifierError(
            f"a classifier of type {type(vectors).__name__}",
            "its linear scores are not known",
            "Pass a linear classifier of scikit-learn, an nn.Linear, or weights (classes, d) with "
            "intercepts (classes,)",
        )
    return (Affine.of(vectors, intercepts),)


def _check_unchanged(module: nn.Module) -> None:
    """Raise an error for anything that makes a module compute something other than its class says."""
    check_plain(module)
    hooked = any(getattr(module, name) for name in _HOOKS) or any(
        getattr(torch_module, f"_global{name}") for name in _HOOKS
    )
    if hooked or getattr(module, "_compiled_call_impl", None) is not None:
        raise ClassifierError(
            f"a {type(module).__name__} with hooks, or compiled",
            "a module must do what its class says",
            "Pass its weight and bias",
        )
