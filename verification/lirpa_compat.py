"""auto_LiRPA 0.3 on a torch and a numpy it was not written for.

Release 0.3 dates from torch 1.12. Five names it relies on have moved or changed since. :func:`load` puts them back and
returns the module; import auto_LiRPA through it and nowhere else. Such names may move again, so a version that was not
tried is refused.
"""

import importlib
import importlib.metadata
import inspect
import logging
import sys
import types
import warnings

import numpy as np
import torch

TRIED_LIRPA = "0.3"
TRIED_TORCH = "2.13"


class UntriedVersionError(RuntimeError):
    """A version the repairs were not tried with. No ImportError: that would skip tests in silence."""


class NotInstalledError(ModuleNotFoundError):
    """There is no auto_LiRPA. Anything else that keeps it from being imported is another error."""


def load() -> types.ModuleType:
    """Repair auto_LiRPA and import it; calling again changes nothing.

    Raises:
        NotInstalledError: auto_LiRPA is not installed.
        UntriedVersionError: auto_LiRPA or torch has a version the repairs were not tried with.
    """
    _check_versions()
    _provide_arraysetops()
    _provide_set_opset_version()
    _provide_optimize_graph()
    _provide_node_getitem()
    # The import installs a root log handler and a warning filter; neither is ours to keep.
    handlers = logging.root.handlers[:]
    with warnings.catch_warnings(record=True):
        auto_lirpa = importlib.import_module("auto_LiRPA")
    logging.root.handlers[:] = handlers
    _accept_remove_duplicate(auto_lirpa.BoundedModule)
    return auto_lirpa


def _check_versions() -> None:
    try:
        found = importlib.metadata.version("auto_LiRPA")
    except importlib.metadata.PackageNotFoundError:
        raise NotInstalledError("auto_LiRPA is not installed: pip install --no-deps auto_LiRPA==0.3") from None
    if found != TRIED_LIRPA:
        raise UntriedVersionError(
            f"auto_LiRPA {found}: the repairs were tried with {TRIED_LIRPA} only. "
            f"Install auto_LiRPA=={TRIED_LIRPA} with --no-deps, or try them and extend TRIED_LIRPA."
        )
    if ".".join(torch.__version__.split(".")[:2]) != TRIED_TORCH:
        raise UntriedVersionError(
            f"torch {torch.__version__}: the repairs were tried with torch {TRIED_TORCH} only. "
            f"Install torch {TRIED_TORCH}, or try them and extend TRIED_TORCH."
        )


def _provide_arraysetops() -> None:
    """Repair 1: ``numpy.lib.arraysetops`` became private in numpy 2; auto_LiRPA takes ``isin`` from it."""
    name = "numpy.lib.arraysetops"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.isin = np.isin
        sys.modules[name] = module


def _provide_set_opset_version() -> None:
    """Repair 2: ``torch.onnx.symbolic_helper._set_opset_version`` became a property of the exporter's globals."""
    # By name: the attributes `symbolic_helper` and `utils` of torch.onnx are other modules than the ones imported here.
    symbolic_helper = importlib.import_module("torch.onnx.symbolic_helper")
    exporter_globals = importlib.import_module("torch.onnx._internal.torchscript_exporter._globals").GLOBALS

    def set_opset_version(version: int) -> None:
        exporter_globals.export_onnx_opset_version = version

    if not hasattr(symbolic_helper, "_set_opset_version"):
        symbolic_helper._set_opset_version = set_opset_version


def _provide_optimize_graph() -> None:
    """Repair 3: ``torch.onnx.utils._optimize_graph`` moved into the private exporter."""
    utils = importlib.import_module("torch.onnx.utils")
    if not hasattr(utils, "_optimize_graph"):
        moved = importlib.import_module("torch.onnx._internal.torchscript_exporter.utils")
        utils._optimize_graph = moved._optimize_graph


def _provide_node_getitem() -> None:
    """Repair 4: ``node[key]`` of a traced graph's node is gone; a node still has one getter per kind of attribute."""

    def getitem(node: torch._C.Node, key: str) -> object:
        return getattr(node, node.kindOf(key))(key)

    if not hasattr(torch._C.Node, "__getitem__"):
        torch._C.Node.__getitem__ = getitem


def _accept_remove_duplicate(bounded_module: type) -> None:
    """Repair 5: torch passes ``remove_duplicate`` to ``_named_members``; the override there always removes them."""
    original = bounded_module._named_members
    if "remove_duplicate" in inspect.signature(original).parameters:
        return

    def named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        return original(self, get_members_fn, prefix, recurse)

    bounded_module._named_members = named_members
