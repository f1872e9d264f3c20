"""The training loss on top of any bound: every node should stay compact in its worst view."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeAlias, get_args

import torch
from torch import Tensor, nn

from certgcl.arguments import FLOATS, choice, items, real, shown, whole
from certgcl.bounds import BoundMethod, ChangeProblem, get_method
from certgcl.bounds.engine import engine_for
from certgcl.bounds.uncertified.formulas import PrintedScore
from certgcl.certify.directions import compactness_directions
from certgcl.certify.pooling.graph_set import GraphSet, GraphsLike
from certgcl.certify.pooling.problem import PooledProblem
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.certify.prepared_graph import PreparedGraph
from certgcl.changes.changes import AdmissibleChanges, BudgetLike, Changes
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import InputError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.learning.graph_term import graph_term, pooled_views
from certgcl.learning.objectives import Objective, bound_loss, kept_loss
from certgcl.learning.schedules import Ramp, check_epoch, value_at
from certgcl.models.network import GraphNetwork
from certgcl.models.pooled_network import Pool
from certgcl.models.reading import ModelLike, traced_network
from certgcl.runtime.arithmetic import undisturbed
from certgcl.runtime.out_of_memory import LESS_AT_A_TIME, told_when_out_of_memory

ViewLike: TypeAlias = GraphLike | Tensor
"""A view: a graph with the same nodes, or its ``edge_index``."""

LARGEST_SCALE = 1e6  # far beyond what any loss can distinguish
BUDGET_STEPS = 20  # a ramp of the drop rate rises in this many steps, because budgets are prepared again at each step


class _Step:
    """The state of a regularizer within a step. It is not copied with the regularizer."""

    epoch: int = 0
    score: float = float("nan")
    term: Tensor | None = None
    prepared: tuple[float | None, PreparedGraph] | None = None
    kept_graphs: tuple[float | None, PooledProblem] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class CompactnessRegularizer:
    """``mean softplus(-score)``, the binary cross-entropy of compactness scores against 1; both directions averaged.

    The score of a node is a lower bound, over all admissible changes, of ``w · z``: the embedding z in the view that
    varies, with the directions ``W^CL`` of the other view. A batch of anchors is bounded with everything within the
    encoder's reach around it, and W^CL over all nodes.

    Settings are immutable, so that nothing derived from them can be out of date; ``dataclasses.replace(regularizer,
    budget=2)`` makes one with another budget.

    Args:
        kappa: the share κ of this term in :meth:`combine`, or a :class:`certgcl.Ramp` of it.
        method: a bound's name or instance. ``degree-fast`` is the degree-exact bound with settings for training;
            ``paper`` and ``released`` are heuristics, evaluated at the sampled views.
        anchors: how many random nodes are bounded in each step; -1 for all.
        budget: what may change: anything that ``node_compactness`` accepts, or a ramp of the drop rate. One edge at
            each node, the default, is a small change on sparse and dense graphs alike. None leaves it to the
            contrastive method, which takes the larger of its two drop rates, as in the paper: dozens of edges on a
            dense graph, from which it may learn nothing.
        scale: scores are divided by the mean norm of the varying view's embeddings (a constant to the gradient) and
            multiplied by this, so that scaling the embeddings up or down gains nothing. None leaves them as they are.
        every: the methods add the term in every n-th epoch only, which makes it cheap on dense graphs.
        objective: ``bound`` for ``softplus(-lower)``, as in the paper; ``kept`` for clean compactness and the share of
            it that the worst case takes, ``softplus(-nominal) + 1 - lower / nominal``, which suits large budgets.

    Example::

        regularizer = CompactnessRegularizer(kappa=0.4, budget=0.3, anchors=256)
        term = regularizer(encoder, graph, view1, view2)
        loss = regularizer.combine(infonce)          # (1 - κ) infonce + κ term
    """

    kappa: float | Ramp = 0.4
    method: str | BoundMethod = "degree-fast"
    anchors: int = -1
    budget: BudgetLike | Ramp | None = 1
    scale: float | None = 2.5
    every: int = 1
    objective: Objective = "bound"
    _step: _Step = field(default_factory=_Step, init=False, repr=False)

    def __post_init__(self) -> None:
        get_method(self.method)
        choice(self.objective, "objective", get_args(Objective))
        if isinstance(self.budget, Ramp):
            for rate in (self.budget.first, self.budget.last):
                real(
                    rate,
                    "budget",
                    lambda rate: 0 <= rate < 1,
                    "a ramp of the budget is one of drop rates, from 0 to below 1",
                    "Try Ramp(0.4, length=100)",
                )
        elif self.budget is not None:
            fixed = self.budget if isinstance(self.budget, Changes) else EdgeDropBudget.of(self.budget)
            if not isinstance(self.budget, (int, float)):
                object.__setattr__(self, "budget", fixed)  # lists and tensors may change
        share = "it is a share of the loss, between 0 and 1"
        for one in (self.kappa.first, self.kappa.last) if isinstance(self.kappa, Ramp) else (self.kappa,):
            real(one, "kappa", lambda kappa: 0 <= kappa <= 1, share, "Try 0.4")
        anchors = whole(self.anchors, "anchors", -1, "it is a number of nodes, or -1 for all", "Try 256")
        if anchors == 0:
            raise InputError("anchors=0", "it is a number of nodes, or -1 for all", "Try 256")
        scale = (
            None
            if self.scale is None
            else real(
                self.scale,
                "scale",
                lambda scale: 0 < scale <= LARGEST_SCALE,
                f"it must be positive, at most {LARGEST_SCALE:g}",
                "Try 2.5, or None for no scaling",
            )
        )
        every = whole(self.every, "every", 1, "it is a number of epochs, at least 1", "Try 1")
        kappa = self.kappa if isinstance(self.kappa, Ramp) else float(self.kappa)
        for name, value in (("kappa", kappa), ("anchors", anchors), ("scale", scale), ("every", every)):
            object.__setattr__(self, name, value)  # numbers of numpy become Python's

    @classmethod
    def clean(cls, **settings: Any) -> "CompactnessRegularizer":
        """Clean compactness: the same term with ``budget=0``, the compactness on the graph as given.

        It is the control of certified training: gains that it achieves too are not due to the worst case.
        """
        if "budget" in settings:
            raise InputError(
                f"clean compactness with budget={shown(settings['budget'])}",
                "its budget is 0",
                "Use CompactnessRegularizer(budget=...)",
            )
        return cls(**settings, budget=0)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as the constructor takes them."""
        return {setting.name: getattr(self, setting.name) for setting in fields(self) if setting.init}

    def with_params(self, **settings: Any) -> "CompactnessRegularizer":
        """A regularizer with some settings changed; unknown names raise an error."""
        known = self.get_params()
        for name in settings:
            if name not in known:
                raise InputError(f"setting {name!r}", f"a regularizer has {', '.join(known)}", "Fix the name")
        return type(self)(**{**known, **settings})

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them; a bound or budget that is neither name nor number becomes text."""
        return {
            name: value
            if value is None or isinstance(value, (int, float, str))
            else {"ramp": asdict(value)}
            if isinstance(value, Ramp)
            else repr(value)
            for name, value in self.get_params().items()
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "CompactnessRegularizer":
        """A regularizer from :meth:`to_dict`; settings that it could only write as text raise an error."""
        known = [setting.name for setting in fields(cls) if setting.init]
        rule, remedy = f"settings are a dict with some of {', '.join(known)}", "Pass what to_dict gives"
        if not isinstance(settings, Mapping) or not all(isinstance(name, str) and name in known for name in settings):
            raise InputError(f"settings={shown(settings)}", rule, remedy)
        given: dict[str, Any] = {
            name: _ramp(value) if isinstance(value, Mapping) else value for name, value in settings.items()
        }
        return cls(**given)

    def at(self, epoch: int) -> "CompactnessRegularizer":
        """Move the schedules to an epoch."""
        self._step.epoch = check_epoch(epoch)
        return self

    @property
    def epoch(self) -> int:
        return self._step.epoch

    @property
    def score(self) -> float:
        """The mean score in the last call."""
        return self._step.score

    @property
    def due(self) -> bool:
        """Whether this epoch has the term."""
        return self.share > 0 and self.epoch % self.every == 0

    @property
    def share(self) -> float:
        """κ at this epoch."""
        return value_at(self.kappa, self.epoch)

    @told_when_out_of_memory(LESS_AT_A_TIME)
    def __call__(
        self,
        encoder: ModelLike,
        graph: GraphLike,
        view1: ViewLike,
        view2: ViewLike,
        *,
        embeddings: tuple[Tensor, Tensor] | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The term, differentiable in the encoder.

        Args:
            encoder: anything that ``node_compactness`` accepts as a model, read from its program in eval mode: the
                current running statistics of a BatchNorm are constants of the step, and dropout is off. A
                ``GraphNetwork`` is taken as it is, and may be a probed one.
            graph: the graph whose edges may be dropped.
            embeddings: of the two views, if the loop has them already. Leave them out for an encoder with dropout or
                BatchNorm: its outputs in training mode are not the ones that are bounded.
            generator: draws the anchors; torch's global one by default, as in torch.
        """
        with undisturbed(gradients=torch.is_grad_enabled()):
            return self._term(encoder, graph, view1, view2, embeddings, generator)

    def _term(
        self,
        encoder: ModelLike,
        graph: GraphLike,
        view1: ViewLike,
        view2: ViewLike,
        embeddings: tuple[Tensor, Tensor] | None,
        generator: torch.Generator | None,
    ) -> Tensor:
        graph = Graph.of(graph).private()
        views = graph.view(view1), graph.view(view2)
        network = _network(encoder, graph)
        z1, z2 = _pair(tuple(map(network.embed, views)) if embeddings is None else embeddings, network)
        method = get_method(self.method)
        if isinstance(method, PrintedScore):
            method = replace(method, at=views)
        directions = torch.stack([compactness_directions(z2), compactness_directions(z1)], dim=1)  # (N, 2, d2)
        problem = self._problem_on(graph, generator)

        def nominal() -> Tensor:
            return (directions[problem.anchors] * network.embed(graph)[problem.anchors].unsqueeze(1)).sum(dim=-1)

        # If nothing may change, the least value is the clean one, which needs no bound.
        with engine_for(network, graph):
            lower = nominal() if method.certified and problem.changes.none else method(network, problem, directions)
        return self.scored(lower, z1, z2, nominal)

    @told_when_out_of_memory(LESS_AT_A_TIME)
    def of_graphs(
        self,
        encoder: ModelLike,
        graphs: GraphsLike,
        view1: GraphsLike,
        view2: GraphsLike,
        *,
        pool: Pool,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The term of whole graphs, differentiable in the encoder of their nodes: the score of a graph is a lower bound
        of ``w · pool_i z_i``, over all changes that the budget admits in that graph.

        Args:
            encoder: as in a call for nodes.
            graphs: a list of graphs or a PyG ``Batch``, two or more; ``anchors`` of them are bounded.
            view1, view2: a view of each graph, in the same order.
            pool: ``"mean"``, ``"sum"`` or ``"max"``.
        """
        with undisturbed(gradients=torch.is_grad_enabled()):
            several = GraphSet.of(graphs)
            network = _network(encoder, several.union)
            views = pooled_views(network, several, (view1, view2), pool)
            return graph_term(self, network, self.problem_of_graphs(several), views, pool, generator)

    def problem_of_graphs(self, graphs: GraphSet) -> PooledProblem:
        """What may change about graphs at this epoch; the same object while graphs and budget stay."""
        rate, kept = self._rate(), self._step.kept_graphs
        if kept is None or kept[0] != rate or kept[1].graphs is not graphs:
            self._step.kept_graphs = kept = rate, PooledProblem(graphs, SetChanges.of(graphs, self.changes()))
        return kept[1]

    def scored(self, lower: Tensor, z1: Tensor, z2: Tensor, nominal: Callable[[], Tensor]) -> Tensor:
        """The term for bounds ``(A, 2)`` against both views, recorded for :meth:`combine`; ``nominal`` has the clean
        values that they bound."""
        norms = torch.stack([z.detach().norm(dim=1).mean() for z in (z1, z2)]).clamp(min=1e-12)
        factor = torch.ones_like(norms) if self.scale is None else self.scale / norms
        self._step.score = float((lower.detach() * factor).mean())
        self._step.term = term = (
            bound_loss(lower, factor) if self.objective == "bound" else kept_loss(lower, nominal(), norms, factor)
        )
        return term

    def combine(self, infonce: Tensor) -> Tensor:
        """``(1 - κ) InfoNCE + κ`` times the term of the last call, which is then forgotten."""
        term = self._step.term
        if term is None:
            raise InputError(
                "combine before a call",
                "there is no term yet",
                "Call the regularizer with encoder, graph and views first",
            )
        if (
            not isinstance(infonce, Tensor)
            or infonce.is_nested
            or infonce.numel() != 1
            or (infonce.dtype not in FLOATS or infonce.is_meta or infonce.layout != torch.strided)
        ):
            raise InputError(f"infonce={shown(infonce)}", "it is the loss, a tensor of one number", "Pass its mean")
        self._step.term = None
        return (1 - self.share) * infonce + self.share * term

    def changes_on(self, graph: Graph) -> AdmissibleChanges:
        """What may change at this epoch; the same object while graph and budget stay."""
        return self._prepared(graph).changes

    def _prepared(self, graph: Graph) -> PreparedGraph:
        """The graph with what may change at this epoch, kept while both stay."""
        graph, rate, kept = graph.private(), self._rate(), self._step.prepared
        if kept is None or kept[0] != rate or kept[1].graph is not graph:
            self._step.prepared = kept = rate, PreparedGraph(graph, self.changes())
        return kept[1]

    def _problem_on(self, graph: Graph, generator: torch.Generator | None) -> ChangeProblem:
        """The problem of this step: new anchors in each step, or all of them; then most of it is built only once."""
        prepared, nodes, device = self._prepared(graph), graph.num_nodes, graph.col.device
        if self.anchors == -1 or self.anchors >= nodes:
            return prepared.problem(torch.arange(nodes, device=device))
        chosen = torch.randperm(nodes, device=device, generator=generator)[: self.anchors]
        return ChangeProblem(prepared.graph, prepared.changes, chosen.sort().values)

    def _rate(self) -> float | None:
        """The drop rate of a ramp at this epoch, in steps."""
        if not isinstance(self.budget, Ramp):
            return None
        step = self.budget.last / BUDGET_STEPS
        return self.budget.last if step == 0 else round(self.budget.at(self.epoch) / step) * step

    def changes(self) -> Changes:
        """What may change at this epoch."""
        if isinstance(self.budget, Ramp):
            rate = self._rate()
            return Changes(drops=rate if rate else 0)
        if self.budget is None:
            raise InputError(
                "budget None",
                "in your own training loop, there are no drop rates from which it could be taken",
                "Pass budget=0.4 for a drop rate, an int, an EdgeDropBudget or Changes",
            )
        return Changes.of(self.budget)


def metrics_of(regularizer: CompactnessRegularizer, term: Tensor) -> dict[str, float]:
    """The metrics of a step with this term, for the history of a training run."""
    return {"pot": float(term.detach()), "compactness": regularizer.score, "kappa": regularizer.share}


def _ramp(settings: Mapping[str, Any]) -> Ramp:
    """A ramp from its settings under the name ``ramp``."""
    ramp = settings.get("ramp")
    names = [setting.name for setting in fields(Ramp)]
    if (
        not isinstance(ramp, Mapping)
        or "last" not in ramp
        or not all(isinstance(name, str) and name in names for name in ramp)
    ):
        raise InputError(
            f"a schedule {shown(settings)}", f"it is a dict of ramp with {', '.join(names)}", "Pass what to_dict gives"
        )
    return Ramp(**ramp)


def _pair(embeddings: Any, network: GraphNetwork) -> tuple[Tensor, Tensor]:
    """The embeddings of two views, as computed by the encoder."""
    rule, remedy = "they are the encoder's outputs for both views", "Leave them out to have them computed"
    given = items(embeddings, "embeddings", rule, remedy)
    if (
        len(given) != 2
        or not all(
            isinstance(z, Tensor)
            and not z.is_nested
            and z.dtype in FLOATS
            and z.device == network.device
            and z.layout == torch.strided
            and z.dim() == 2
            for z in given
        )
        or given[0].shape != given[1].shape
    ):
        raise InputError(f"embeddings={shown(embeddings)}", rule, remedy)
    return given[0].to(network.dtype), given[1].to(network.dtype)  # autocast may have computed them in half precision


def _network(encoder: ModelLike, graph: Graph) -> GraphNetwork:
    """The network that is bounded: that of a module in eval mode, in its own precision."""
    if isinstance(encoder, GraphNetwork):
        return encoder
    with in_eval_mode(encoder):
        network = traced_network(encoder, graph)
    return network.to(network.precision)


@contextmanager
def in_eval_mode(model: Any) -> Iterator[None]:
    """In this context, a module and its parts are in eval mode; afterwards each has its own mode again."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
