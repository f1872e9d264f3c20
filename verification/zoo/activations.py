"""Modules whose activation is two-piece linear only where a reader is likely to look."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from verification.case import Case
from verification.zoo.base import Layers, malicious


def around(threshold: float) -> tuple[float, ...]:
    """Scales at which values are on both sides of a threshold, or beyond it."""
    return tuple(share * threshold for share in (0.2, 0.5, 1.0, 2.0, 10.0, 100.0))


@malicious(scales=around(65504))
class ClampedAsInHalfPrecision(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu().clamp(max=65504)
        return self.conv2(hidden, edge_index)


@malicious(scales=around(20))
class PlateauBetweenTenAndSixty(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        p = self.conv1(x, edge_index)
        return self.conv2(torch.where((p > 10) & (p < 60), torch.full_like(p, 10.0), p.relu()), edge_index)


@malicious(scales=around(1e20))
class FlipsBeyondOneE20(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        p = self.conv1(x, edge_index)
        return self.conv2(torch.where(p > 1e20, -p, p.relu()), edge_index)


@malicious(scales=around(1e-21))
class FlipsBelowOneEMinus20(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        p = self.conv1(x, edge_index)
        return self.conv2(torch.where(p.abs() < 1e-20, -p, p.relu()), edge_index)


@malicious(scales=around(1e-6))
class ThresholdNearZero(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.threshold(self.conv1(x, edge_index), 1e-6, 0.0), edge_index)


@malicious()
class Quantised(Layers):
    """To multiples of 2^-20, as integers are kept."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = torch.floor(self.conv1(x, edge_index).relu() * 2**20) / 2**20
        return self.conv2(hidden, edge_index)


@malicious()
class HalfPrecisionInside(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu().half().to(x.dtype), edge_index)


@malicious()
class FloatInsideADouble(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu().float().double(), edge_index)


@malicious(scales=around(1e4))
class SkipForLargeNorms(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu()
        z = self.conv2(hidden, edge_index)
        return z - (hidden.norm(dim=1, keepdim=True) > 3e4) * 3 * z.abs()


@malicious(scales=around(100))
class ClippedNorm(Layers):
    """Gradient clipping of embeddings, so to speak."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(self.conv1(x, edge_index).relu(), edge_index)
        return z / (z.norm(dim=1, keepdim=True) / 100).clamp(min=1)


@malicious(scales=around(20))
class SawtoothBetweenTheProbes(Layers):
    """The identity at all multiples of 2^-11."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        p = self.conv1(x, edge_index).relu()
        return self.conv2(torch.where((p > 3.5) & (p < 63.5), p - p * ((p * 2**11) % 1), p), edge_index)


@malicious(scales=around(1000))
class HalvedWhileLarge(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu()
        while float(hidden.max()) > 1000:
            hidden = hidden / 2
        return self.conv2(hidden, edge_index)


@malicious(scales=around(300))
class CubeAboveAThousand(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu()
        return self.conv2(hidden - (hidden - 1000).relu().pow(3), edge_index)


@malicious()
class SlopeByTheMean(Layers):
    """One slope for positive means, another for negative ones."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        p = self.conv1(x, edge_index)
        return self.conv2(F.leaky_relu(p, 0.0 if float(p.mean()) > 0 else -2.0), edge_index)


@malicious()
class LargestChannelOnly(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu()
        return self.conv2(hidden * (hidden == hidden.amax(dim=1, keepdim=True)), edge_index)


@malicious()
class WrongWhereAllChannelsAreDead(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu()
        dead = (hidden[:, :1] == 0) & (hidden[:, 1:2].sum(dim=1, keepdim=True) == 0)
        return self.conv2(hidden - 50.0 * dead, edge_index)


@malicious()
class Relu6(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return -F.relu6(-self.conv2(F.relu6(self.conv1(x, edge_index)), edge_index))


@malicious(seems=(1.0, 1.0))
class HardTanhOfLargeRange(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.hardtanh(self.conv1(x, edge_index), -0.5, 0.5), edge_index)


@malicious()
class SoftmaxAtTheEnd(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return F.log_softmax(self.conv2(F.relu(self.conv1(x, edge_index)), edge_index), dim=1)


@malicious()
class DropoutAlwaysOn(Layers):
    """``training=self.training`` forgotten."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.dropout(F.relu(self.conv1(x, edge_index)), p=0.05), edge_index)


@malicious()
class DropoutInTrainMode(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.dropout.train()(F.relu(self.conv1(x, edge_index))), edge_index)


@malicious()
class RandomReluInTrainMode(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.rrelu(self.conv1(x, edge_index), -0.5, 0.5, training=True), edge_index)


class ReLU(nn.Module):  # the name is part of the lie
    """A ReLU up to 20."""

    def forward(self, p: Tensor) -> Tensor:
        return p.clamp(0, 20)


@malicious(scales=around(20))
class ReluOfTheirOwn(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = ReLU()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


class SaturatedRelu(nn.ReLU):
    def forward(self, p: Tensor) -> Tensor:
        return super().forward(p).clamp(max=1e5)


@malicious(scales=around(1e5))
class SubclassOfReluThatSaturates(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = SaturatedRelu()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


class LooseSlope(nn.PReLU):
    """Its weight is a property that depends on how often it was read."""

    asked = 0

    @property
    def slope(self) -> Tensor:
        self.asked += 1
        return torch.full((1,), 0.0 if self.asked < 12 else -3.0, dtype=torch.float64)

    def forward(self, p: Tensor) -> Tensor:
        return F.prelu(p, self.slope)


@malicious()
class SlopeThatChanges(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = LooseSlope()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)
