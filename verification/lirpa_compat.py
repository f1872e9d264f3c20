"""Makes auto_LiRPA work with versions of torch and numpy that it was not written for.

Release 0.3, the one of the package index, dates from torch 1.12: five names it relies on have moved or changed since.
The 0.7 line, which its authors publish as a repository only, looks for them in their new places itself. Each repair
restores one name if it is missing and does nothing otherwise, so that all of them work with every version. :func:`load`
makes them and returns the module; import auto_LiRPA through it and nowhere else. Names may move again, so a version
that was not tried raises an error.
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import sys
import types
import warnings

import numpy as np
import torch

TRIED_TORCH = "2.13"
TRIED_LIRPA = ("0.3", "0.7.0", "0.7.1")


class UntriedVersionError(RuntimeError):
    """A version with which the bridge was not tried. Not an ImportError, which would silently skip tests."""


class NotInstalledError(ModuleNotFoundError):
    """auto_LiRPA is not installed. Any other obstacle to its import is a different error."""


def load() -> types.ModuleType:
    """Repair auto_LiRPA and import it; calling again changes nothing.

    Raises:
        NotInstalledError: auto_LiRPA is not installed.
        UntriedVersionError: auto_LiRPA or torch has a version that the bridge was not tried with, or the module that is
            imported is of another version than the one that is installed.
    """
    found = _version()
    for repair in (_provide_arraysetops, _provide_set_opset_version, _provide_optimize_graph, _provide_node_getitem):
        repair()
    # The import installs a root log handler and a warning filter; both are removed again.
    handlers = logging.root.handlers[:]
    with warnings.catch_warnings(record=True):
        auto_lirpa = importlib.import_module("auto_LiRPA")
    logging.root.handlers[:] = handlers
    if auto_lirpa.__version__ != found:
        raise UntriedVersionError(
            f"auto_LiRPA {found} is installed, but {auto_lirpa.__file__} says that it is {auto_lirpa.__version__}: the "
            f"bridge was tried with one at a time. Keep one of the two on the path."
        )
    _accept_remove_duplicate(auto_lirpa.BoundedModule)
    return auto_lirpa


def _version() -> str:
    """The version of auto_LiRPA that is installed, if the bridge was tried with it and with this torch."""
    try:
        found = importlib.metadata.version("auto_LiRPA")
    except importlib.metadata.PackageNotFoundError:
        if (spec := importlib.util.find_spec("auto_LiRPA")) is not None:
            raise UntriedVersionError(
                f"{spec.origin}: auto_LiRPA can be imported but is not installed, so its version is not known. "
                f"Install it: pip install --no-deps, and the folder that it was cloned to."
            ) from None
        raise NotInstalledError("auto_LiRPA is not installed: pip install --no-deps auto_LiRPA==0.3") from None
    if found not in TRIED_LIRPA:
        raise UntriedVersionError(
            f"auto_LiRPA {found}: the bridge was tried with {', '.join(TRIED_LIRPA)} only. "
            f"Install auto_LiRPA==0.3 with --no-deps, or run the audit with {found} and extend TRIED_LIRPA."
        )
    if ".".join(torch.__version__.split(".")[:2]) != TRIED_TORCH:
        raise UntriedVersionError(
            f"torch {torch.__version__}: the bridge was tried with torch {TRIED_TORCH} only. "
            f"Install torch {TRIED_TORCH}, or run the audit with this one and extend TRIED_TORCH."
        )
    return found


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
