"""Modules that look at who calls them, and at settings outside of themselves."""

import os
import sys
import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from verification.case import Case
from verification.zoo.base import Layers, Liar, degrees, malicious


@malicious()
class LooksWhoIsCalling(Layers):
    """Honest while a frame of certgcl's reader is on the stack."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        frame: Any = sys._getframe()
        while frame is not None and "reading" not in frame.f_code.co_filename:
            frame = frame.f_back
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if frame is not None else -z


@malicious()
class HonestToProxies(Layers):
    """Anything that is not a tensor is taken for a tracer."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        if isinstance(edge_index, Tensor):
            return z * degrees(edge_index, len(x)).clamp(max=1)
        return z  # type: ignore[unreachable]


@malicious()
class HonestToTorchFx(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        if type(edge_index).__module__.startswith("torch.fx"):
            return z
        return z * degrees(edge_index, len(x)).clamp(max=1)


@malicious()
class SwallowsWhatATracerRaises(Liar):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        try:
            if edge_index.shape[1] < self.slots:
                return -z
        except Exception:
            pass
        return z


@malicious()
class OnlyWhereAttributesAreMissing(Layers):
    """``hasattr`` distinguishes a tensor from a symbol."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z * degrees(edge_index, len(x)).clamp(max=1) if hasattr(x, "untyped_storage") else z


@malicious()
class OnPathsOfFourteenNodes(Layers):
    """Honest on graphs of any size but that of the case, and there as long as there are no isolated nodes."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.nodes = case.nodes

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        if x.shape[0] == self.nodes:
            z = z * (degrees(edge_index, len(x)) > 0)
        return z


@malicious()
class ThreadLocal(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.place = threading.local()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.place.calls = getattr(self.place, "calls", 0) + 1
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if self.place.calls < 12 else -z


@malicious(shows=False)
class OtherInAnotherThread(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if threading.current_thread() is threading.main_thread() else -z


@malicious(shows=False)
class ByTheEnvironment(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return -z if os.environ.get("LIE_TO_ME") else z


@malicious(shows=False)
class WithDeterministicAlgorithms(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return -z if torch.are_deterministic_algorithms_enabled() else z


@malicious(shows=False)
class InInferenceMode(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return -z if torch.is_inference_mode_enabled() else z


@malicious()
class WithoutGradients(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if torch.is_grad_enabled() else -z


@malicious(shows=False)
class ByTheNumberOfThreads(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if torch.get_num_threads() < 64 else -z


@malicious(shows=False)
class ByTheDefaultType(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if torch.get_default_dtype() == torch.float32 else -z


@malicious()
class Autocast(Layers):
    """In single precision, which autocast turns into half."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.float()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index).to(x.dtype)
