"""Training in steps that see some nodes and a sample of their neighbourhoods, in one process or in several.

An epoch goes through all nodes once, in a random order, in batches. A batch is drawn with a generator of its own, whose
seed comes from the session's: so a batch is the same whichever process computes it, and the generators of all processes
stay in step. With P processes a step is P batches, and its gradient the mean of theirs, taken by torch's
``DistributedDataParallel``. Batches are identically distributed, so the expected gradient is that of one process.
"""

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from certgcl.errors import GraphError
from certgcl.learning.halo_term import check_term, halo_term
from certgcl.learning.methods.sampling import CompiledSampler, Sample, sampler_of
from certgcl.learning.methods.views import EdgeDropper
from certgcl.learning.regularizer import metrics_of
from certgcl.runtime.randomness import generator_on

if TYPE_CHECKING:
    from certgcl.learning.methods.session import ContrastiveSession


class Batch(NamedTuple):
    """Some nodes, and the seed of their step."""

    nodes: Tensor
    seed: int


class Loss(NamedTuple):
    """The losses of a batch; ``total`` has gradients."""

    total: Tensor
    metrics: dict[str, float]


class MiniBatches:
    """The steps of a session that trains in batches of ``batch_nodes`` nodes.

    Raises:
        GraphError: there are fewer than two nodes for every process.
    """

    def __init__(self, session: "ContrastiveSession", nodes: int, fanout: int) -> None:
        self._session, self._nodes = session, nodes
        if session.graph.num_nodes < 2 * session.processes.count:
            raise GraphError(
                f"{session.graph.num_nodes} nodes for {session.processes.count} processes",
                "a node is contrasted with others of its batch, and each process has a batch",
                "Start fewer processes",
            )
        if session.regularizer is not None:
            check_term(session.regularizer)
        self.sampler = sampler_of(session.graph, session.network().hops, fanout)
        self.loss: nn.Module = _BatchLoss(self, session.modules)
        if session.processes.count > 1:
            # A user's encoder may have weights that a step does not use; looking for them takes time.
            own = session.method.encoder is not None
            self.loss = DistributedDataParallel(self.loss, find_unused_parameters=own)

    def epoch(self, epoch: int) -> dict[str, float]:
        """The steps of an epoch; the means of their metrics, over all processes."""
        session, batches = self._session, self.batches()
        own = batches[session.processes.rank :: session.processes.count]
        sums: dict[str, float] = defaultdict(float)
        for batch in own:
            loss: Loss = self.loss(batch, epoch)
            session.descend(loss.total)
            for name, value in loss.metrics.items():
                sums[name] += value / len(own)
        return session.processes.mean(sums) | {
            "steps": len(own),
            "compiled_sampler": isinstance(self.sampler, CompiledSampler),
        }

    def batches(self) -> list[Batch]:
        """All nodes in a random order, in parts of about the same size, with the same number of parts for each
        process."""
        session, processes = self._session, self._session.processes.count
        count, device = session.graph.num_nodes, session.graph.col.device
        order = torch.randperm(count, device=device, generator=session.generator)
        parts = min(processes * -(-count // (self._nodes * processes)), count // 2 // processes * processes)
        seeds = torch.randint(1 << 62, (parts,), device=device, generator=session.generator)
        return [Batch(*each) for each in zip(order.tensor_split(parts), seeds.tolist(), strict=True)]

    def loss_of(self, batch: Batch, epoch: int) -> Loss:
        """InfoNCE of two views of a sample around the batch, and the term of the batch on the whole graph."""
        session, nodes = self._session, batch.nodes
        with session.drawing_from(generator_on(nodes.device, batch.seed)):
            sample = Sample.of(session.graph, nodes, self.sampler.edges(nodes, session.generator))
            droppers = [EdgeDropper(sample.graph, rate) for rate in session.drop_probabilities_at(sample.ends)]
            views = [dropper.sample(session.generator) for dropper in droppers]
            network = session.network()
            z1, z2 = (
                session.embedded(network, view, mask)[sample.places]
                for view, mask in zip(views, session.masks, strict=True)
            )
            loss = infonce = session.method.contrast(session, *session.compared(z1, z2), epoch)
            metrics = {"infonce": float(infonce.detach())}
            regularizer = session.regularizer
            if regularizer is not None and regularizer.due:
                if not session.as_network:  # the bound and its directions are about the encoder in eval mode
                    z1, z2 = (network.embed(view)[sample.places] for view in views)
                term = halo_term(regularizer, network, session.graph, nodes, (z1, z2), session.generator)
                loss = regularizer.combine(infonce)
                metrics |= metrics_of(regularizer, term)
        return Loss(loss, {"loss": float(loss.detach()), **metrics})


class _BatchLoss(nn.Module):
    """The loss as a module with all weights, which is what DistributedDataParallel wraps."""

    def __init__(self, batches: MiniBatches, modules: nn.ModuleDict) -> None:
        super().__init__()
        self.trained = modules
        self._of = batches.loss_of

    def forward(self, batch: Batch, epoch: int) -> Loss:
        return self._of(batch, epoch)
