"""InfoNCE against a loop over anchors and negatives."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from certgcl.errors import InputError
from certgcl.learning.methods import infonce
from certgcl.learning.methods.infonce import info_nce


def square_of_shifted(s: Tensor) -> Tensor:
    return ((s.detach() + 1) / 2).square()


def slow_info_nce(
    p: Tensor, q: Tensor, temperature: float, intra: bool, weighting: Callable[[Tensor], Tensor] | None
) -> Tensor:
    """The formula of the module, anchor by anchor."""
    p, q, n = normalize(p), normalize(q), len(p)

    def denominator(own: Tensor, other: Tensor, i: int) -> Tensor:
        total = torch.exp(own[i] @ other[i] / temperature)
        for view in [other, own] if intra else [other]:
            s = torch.stack([own[i] @ view[j] for j in range(n) if j != i])
            weight = torch.ones_like(s) if weighting is None else weighting(s) / weighting(s).mean()
            total = total + (weight * torch.exp(s / temperature)).sum()
        return total

    return torch.stack(
        [(denominator(p, q, i).log() + denominator(q, p, i).log()) / 2 - p[i] @ q[i] / temperature for i in range(n)]
    )


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "made-again"])
@pytest.mark.parametrize("intra", [True, False])
@pytest.mark.parametrize("weighting", [None, square_of_shifted])
def test_losses_and_gradients_are_those_of_the_formula(
    kept: bool, intra: bool, weighting: Callable[[Tensor], Tensor] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infonce, "CHUNK", 21)  # three rows of seven
    monkeypatch.setattr(infonce, "KEPT", 49 if kept else 48)
    p, q = (torch.randn(7, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    found, expected = info_nce(p, q, 0.4, intra=intra, weighting=weighting), slow_info_nce(p, q, 0.4, intra, weighting)
    torch.testing.assert_close(found, expected)
    upstream = torch.randn(7, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(found, (p, q), upstream), torch.autograd.grad(expected, (p, q), upstream)
    )


def test_the_smallest_temperature_neither_overflows_nor_underflows() -> None:
    p = torch.randn(50, 2, requires_grad=True)
    loss = info_nce(p, -p.detach(), 0.024).mean()
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(p.grad).all()
    expected = slow_info_nce(p.detach().double(), -p.detach().double(), 0.024, True, None).mean()
    torch.testing.assert_close(loss.detach().double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 0.01, float("nan"), float("inf")])
def test_temperatures_that_underflow_are_refused(temperature: float) -> None:
    with pytest.raises(InputError, match="temperature"):
        info_nce(torch.rand(3, 2), torch.rand(3, 2), temperature)


def test_negatives_without_weight_leave_the_positive_alone() -> None:
    p, q = torch.randn(2, 5, 3, dtype=torch.float64)
    assert torch.allclose(info_nce(p, q, 0.5, weighting=torch.zeros_like), torch.zeros(5, dtype=torch.float64))


def test_memory_does_not_grow_with_the_square_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infonce, "KEPT", 0)
    monkeypatch.setattr(infonce, "CHUNK", 1 << 16)
    largest = 0

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                largest = max(largest, result.numel())
            return result

    p, q = (torch.randn(1000, 4, requires_grad=True) for _ in range(2))
    with Watch():
        info_nce(p, q, 0.5).mean().backward()
    assert largest <= 1 << 16
