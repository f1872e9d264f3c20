"""GraphCL: whole graphs by contrasting two views of each, with or without the compactness regularizer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch_geometric.nn.models import GIN

from certgcl import arguments
from certgcl.certify.pooling.graph_set import GraphSet, GraphsLike
from certgcl.errors import InputError
from certgcl.files.digest import digest
from certgcl.learning.methods.base import ContrastiveMethod
from certgcl.learning.methods.graph_session import GraphSession
from certgcl.learning.methods.infonce import info_nce
from certgcl.learning.methods.session import ContrastiveSession, check_contrast
from certgcl.learning.training import Progress, train
from certgcl.learning.training.processes import ALONE, Processes
from certgcl.models.pooled_network import Pool, PooledNetwork
from certgcl.runtime.out_of_memory import LESS_AT_A_TIME, SMALLER, told_when_out_of_memory

Convolution = Literal["gcn", "gin"]


@dataclass(kw_only=True, eq=False)
class GraphCL(ContrastiveMethod):
    """Graph contrastive learning with augmentations (You et al. 2020): a graph is its pooled node embeddings, and is
    contrasted with the other graphs of a batch. Views drop edges, and mask feature columns if ``mask_rates`` say so.

    An estimator like the methods for nodes, but of a list of graphs: ``fit(graphs)``, ``transform(graphs)`` with a row
    for each, in pipelines and cross-validation of scikit-learn too. A fitted one can be passed to
    :func:`certgcl.graph_compactness` as the model, without ``pool``.

    Args:
        convolution: two layers of ``gin`` (PyG's ``GIN``, with an MLP of two layers in each), or of ``gcn`` as in the
            methods for nodes, if no ``encoder`` is given. Every encoder is one of nodes.
        pool: ``"mean"``, ``"sum"`` or ``"max"`` over the nodes of a graph.
        batch: how many random graphs are contrasted in a step; None for all. An epoch goes through all graphs.
        regularizer: the compactness term of whole graphs; its ``anchors`` are graphs, and its budget is that of a
            single graph.

    Example::

        graphs = certgcl.load_dataset("cycles-and-trees")[:20]
        method = certgcl.GraphCL(epochs=2, regularizer=certgcl.CompactnessRegularizer(kappa=0.4)).fit(graphs)
        embeddings = method.transform(graphs)
        certificate = certgcl.graph_compactness(method, graphs, certgcl.EdgeDropBudget(total=2))
    """

    hidden: int = 32
    drop_rates: tuple[float, float] = (0.2, 0.2)
    temperature: float = 0.2
    learning_rate: float = 1e-3
    epochs: int = 40
    batch: int | None = 128
    convolution: Convolution = "gin"
    pool: Pool = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice(self.convolution, "convolution", get_args(Convolution))
        arguments.choice(self.pool, "pool", get_args(Pool))
        if self.convolution != "gcn" and self.gain != 1:
            raise InputError(
                f"gain={self.gain:g} with convolution={self.convolution!r}",
                "it scales the initial weights of two GCN layers",
                "Leave it out, or pass convolution='gcn'",
            )
        if self.batch_nodes is not None:
            raise InputError(
                f"batch_nodes={self.batch_nodes} for GraphCL", "its batches are of graphs", "Pass batch= instead"
            )

    @told_when_out_of_memory(LESS_AT_A_TIME)
    def fit(
        self,
        data: GraphsLike,
        y: Any = None,
        *,
        folder: str | Path | None = None,
        resume: bool = False,
        progress: Callable[[Progress], None] | None = None,
        **options: Any,
    ) -> Self:
        """Train on a list of graphs, a PyG ``Batch`` or a dataset; everything else as for the methods for nodes."""
        session = self.session(data)
        self.history_ = train(
            session,
            self.epochs,
            folder=folder,
            resume=resume,
            progress=progress,
            config=None if folder is None else self.run_config(session.graphs),
            **options,
        )
        self.encoder_, self.n_features_in_ = session.encoder.eval(), session.graph.num_features
        return self

    @told_when_out_of_memory(SMALLER)
    def transform(self, data: GraphsLike) -> Tensor:
        """The pooled embeddings of graphs as given, ``(G, width)``: of the encoder, not of the projector."""
        with torch.no_grad():
            network = self.network()
            graphs = GraphSet.of(data).to(network.device, network.dtype)
            return PooledNetwork(network, self.pool).embed(graphs.union, graphs.batch).to(network.precision)

    def session(self, data: GraphsLike, processes: Processes = ALONE) -> GraphSession:
        if processes.count > 1:
            raise InputError(
                f"GraphCL in {processes.count} processes", "it trains in one", "Run one training in each process"
            )
        return GraphSession(self, GraphSet.of(data))

    def run_config(self, graph: Any) -> dict[str, Any]:
        several = graph if isinstance(graph, GraphSet) else GraphSet.of(graph)
        found = super().run_config(several.union)
        return found | {
            "graph": f"{len(several)} graphs, {found['graph']}",
            "graph_sha256": digest(several.sizes, several.union.rowptr, several.union.col, several.union.x),
        }

    def new_encoder(self, features: int) -> nn.Module:
        if self.encoder is not None or self.convolution == "gcn":
            return super().new_encoder(features)
        return GIN(features, self.hidden, 2, act=self.activation)

    def contrast(self, session: ContrastiveSession, z1: Tensor, z2: Tensor, epoch: int) -> Tensor:
        """InfoNCE over the graphs of a batch; negatives are the other graphs in the other view."""
        check_contrast(session, GraphSession, z1, z2, epoch)
        return info_nce(session.projector(z1), session.projector(z2), self.temperature, intra=False).mean()
