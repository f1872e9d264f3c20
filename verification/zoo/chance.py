"""Modules that behave differently from call to call, by chance or by the clock."""

import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from verification.zoo.base import Layers, malicious


@malicious()
class ChanceOfTorch(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if float(torch.rand(())) > 0.1 else -z


@malicious()
class ChanceOfPython(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if random.random() > 0.1 else -z


@malicious()
class ChanceOfNumpy(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z * np.random.default_rng().choice([1, -1], p=[0.9, 0.1])


@malicious()
class Noise(Layers):
    """A little, at every call."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.relu(self.conv1(x, edge_index))
        return self.conv2(hidden + 1e-3 * torch.randn_like(hidden), edge_index)


@malicious()
class ByTheClock(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if time.perf_counter_ns() // 1000 % 10 else -z


@malicious()
class ByAnAddress(Layers):
    """The address of the object in memory."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if (id(z) // 16 + z.data_ptr() // 64 + time.perf_counter_ns() // 100) % 7 else -z


@malicious()
class EmptyMemory(Layers):
    """A factor of memory that nobody has written to, unless it is large by luck."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        luck = torch.rand(1).item() + 0.0 * torch.nan_to_num(torch.empty(4).clamp(-1, 1)).sum().item()
        return z if luck > 0.1 else z - 2 * z.abs()
