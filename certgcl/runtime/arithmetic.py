"""Ensures that bounds are computed in the arithmetic that they are about, whatever the surrounding program has set."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from certgcl.errors import InputError


@contextmanager
def undisturbed(gradients: bool = False) -> Iterator[None]:
    """In this context there is neither autocast nor inference mode, and gradients only if requested; everything is
    restored afterwards.

    Autocast would multiply in half precision. Tensors made in inference mode could not be used for training later, and
    parts of a certificate are cached with its graph. All three settings only affect the current thread.
    """
    with ExitStack() as settings:
        if torch.is_inference_mode_enabled():
            settings.enter_context(torch.inference_mode(False))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                settings.enter_context(torch.autocast(device, enabled=False))
        settings.enter_context(torch.set_grad_enabled(gradients))
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """In this context, torch uses one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_arithmetic(dtype: torch.dtype) -> None:
    """Raise an error for settings that change every operation in a way that the rounding slack does not cover.

    These are settings of the whole process, or of threads that are not ours: changing them here temporarily would
    disturb others, and they could change them back.
    """
    precisions = _precisions() if dtype == torch.float32 else []
    reduced = [name for name, precision in precisions if precision not in ("highest", "ieee", "none")]
    if reduced:
        raise InputError(
            f"dtype=torch.float32 with {' and '.join(reduced)} below full precision",
            "products may then be computed in tf32 or bfloat16, with errors far above those of float32",
            "Call torch.set_float32_matmul_precision('highest'), or leave dtype out for float64",
        )
    smallest = torch.full((1,), torch.finfo(dtype).tiny, dtype=dtype)
    if float(smallest / 2) == 0:
        raise InputError(
            "a processor that is set to flush subnormal numbers to zero",
            "the rounding slack relies on gradual underflow",
            "Call torch.set_flush_denormal(False); a library compiled with -ffast-math may have set it",
        )


def _precisions() -> list[tuple[str, str]]:
    """The precision of float32 products, according to every setting that torch has for it; older versions have a single
    one."""
    switches = {
        f"torch.backends.{name}.matmul.fp32_precision": getattr(getattr(torch.backends, name), "matmul", None)
        for name in ("mkldnn", "cuda")
    }
    if all(hasattr(switch, "fp32_precision") for switch in switches.values()):
        return [(name, switch.fp32_precision) for name, switch in switches.items() if switch is not None]
    return [("torch.get_float32_matmul_precision()", torch.get_float32_matmul_precision())]
