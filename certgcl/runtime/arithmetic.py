"""The arithmetic that bounds are computed in is the one they speak of, whatever the program around them has set."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from certgcl.errors import InputError


@contextmanager
def undisturbed(gradients: bool = False) -> Iterator[None]:
    """Within it there is neither autocast nor inference mode, and gradients only if wanted; then all is as before.

    Autocast would multiply in half precision. What inference mode makes could not be used for training later, and
    something of a certificate is kept with its graph. All three are settings of the thread alone.
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
    """Within it, torch computes with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_arithmetic(dtype: torch.dtype) -> None:
    """Refuse what changes every operation in a way that rounding slack does not cover.

    These are settings of the whole process, or of threads that are not ours: to set them back here for a while would
    disturb others, and they us.
    """
    precisions = _precisions() if dtype == torch.float32 else []
    reduced = [name for name, precision in precisions if precision not in ("highest", "ieee", "none")]
    if reduced:
        raise InputError(
            f"dtype=torch.float32 with {' and '.join(reduced)} below full precision",
            "products may then be made in tf32 or bfloat16, with errors far above those of float32",
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
    """Of products of float32, by every switch that torch has for them; older versions have one for all."""
    switches = {
        f"torch.backends.{name}.matmul.fp32_precision": getattr(getattr(torch.backends, name), "matmul", None)
        for name in ("mkldnn", "cuda")
    }
    if all(hasattr(switch, "fp32_precision") for switch in switches.values()):
        return [(name, switch.fp32_precision) for name, switch in switches.items() if switch is not None]
    return [("torch.get_float32_matmul_precision()", torch.get_float32_matmul_precision())]
