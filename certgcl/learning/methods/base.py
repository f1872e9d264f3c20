"""The common base of the contrastive methods: their settings, and the estimator interface."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self, get_args

import torch
from torch import Tensor, nn

from certgcl import arguments
from certgcl.arguments import WIDEST
from certgcl.errors import InputError, NotFittedError
from certgcl.files.digest import digest, stored_parts
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.learning.methods.encoders import EncoderLike, check_encoder, check_named, name_of, new_encoder
from certgcl.learning.methods.infonce import check_temperature, info_nce
from certgcl.learning.methods.session import ContrastiveSession, check_contrast
from certgcl.learning.methods.storage import load_method, save_method
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.learning.schedules import Schedule
from certgcl.learning.training import History, Progress, train
from certgcl.learning.training.processes import ALONE, Processes
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import network_of
from certgcl.runtime.arithmetic import one_thread
from certgcl.runtime.out_of_memory import LESS_AT_A_TIME, SMALLER, told_when_out_of_memory

MANY_NODES = 1000  # with fewer, threads wait for each other longer than they work
LARGEST_GAIN = 1e6  # far beyond what any features need
LARGEST_FLOAT32 = torch.finfo(torch.float32).max
_REGULARIZER = "regularizer__"  # before the names of its settings
FIXED_ACTIVATIONS = ("relu", "prelu", "leaky_relu", "identity")  # an RReLU is random while it is trained


@dataclass(kw_only=True, eq=False)
class ContrastiveMethod:
    """Node embeddings by contrasting two views, with or without the compactness regularizer.

    An estimator in the manner of scikit-learn: settings in the constructor, ``fit(data)``, ``transform(data)``,
    ``get_params`` and ``set_params`` (``regularizer__kappa=0.2`` too), ``sklearn.base.clone``, ``save`` and ``load``.
    If scikit-learn needs something that it can split, pass a list with one graph. A fitted method can
    be passed to ``node_compactness`` as the model.

    Args:
        hidden: width h of the embeddings; the first layer has 2h channels. An encoder of your own has its own width.
        projection: width of the projector that the loss uses; h by default.
        activation: after both layers: ``relu``, ``prelu`` (one slope for both), ``leaky_relu`` or ``identity``.
        gain: factor of the first layer's initial weights. Features that are divided by their row's sum are small. Then
            biases outgrow everything else within a few steps, and all embeddings become nearly the same; a gain of 16
            prevents that. Only for the two GCN layers.
        encoder: replaces the two GCN layers: a factory that is called with the numbers of features and of hidden
            channels in every ``fit``, or a module, which ``fit`` trains a copy of. It must be one that
            :func:`certgcl.read_network` can read. During training, its dropout is active and its BatchNorm uses batch
            statistics; the regularizer bounds it as in eval mode, with running statistics as constants of the step.
        drop_rates: the share of edges that each view drops.
        mask_rates: the share of feature columns that each view sets to zero.
        temperature: τ of InfoNCE.
        schedule: of the learning rate: ``constant``, or ``cosine``, which rises linearly over the first tenth of the
            epochs and then falls to zero along half a cosine. Such a run cannot be resumed with more epochs.
        batch: how many random nodes InfoNCE compares with each other in a step; None for all.
        batch_nodes: train in mini-batches, for graphs whose full pass does not fit into memory: an epoch has a step for
            each batch of this number of nodes, which sees a sample of their neighbourhood. The regularizer bounds its
            anchors, some of these nodes, with their whole neighbourhood. None for one step on the whole graph.
        fanout: how many neighbours of a node such a step samples, at each hop; -1 for all.
        regularizer: the compactness term and its share of the loss.
        inside_budget: sample only views that are admissible changes by the regularizer's budget: drops, and masks if
            features are part of it.
        device: where to train; that of the data by default.
    """

    hidden: int = 128
    projection: int | None = None
    activation: str = "relu"
    gain: float = 1.0
    encoder: EncoderLike = None
    drop_rates: tuple[float, float] = (0.4, 0.3)
    mask_rates: tuple[float, float] = (0.0, 0.0)
    temperature: float = 0.5
    learning_rate: float = 5e-4
    schedule: Schedule = "constant"
    weight_decay: float = 1e-5
    epochs: int = 200
    batch: int | None = None
    batch_nodes: int | None = None
    fanout: int = 10
    regularizer: CompactnessRegularizer | None = None
    inside_budget: bool = False
    seed: int = 0
    device: str | None = None
    encoder_: nn.Module | GraphNetwork | None = field(default=None, init=False, repr=False)
    n_features_in_: int = field(default=0, init=False, repr=False)
    history_: History | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        width = f"it must be an int from 1 to {WIDEST}"
        self.hidden = arguments.whole(self.hidden, "hidden", 1, width, "Try 128", most=WIDEST)
        if self.projection is not None:
            self.projection = arguments.whole(
                self.projection,
                "projection",
                1,
                f"{width}, or None",
                "Leave it out for the width of the embeddings",
                most=WIDEST,
            )
        self.activation = arguments.choice(self.activation, "activation", FIXED_ACTIVATIONS)
        self.gain = arguments.real(
            self.gain,
            "gain",
            lambda gain: 0 < gain <= LARGEST_GAIN,
            f"it is from 0 to {LARGEST_GAIN:g}",
            "Try 16, or 1",
        )
        check_encoder(self.encoder)
        if self.encoder is not None and self.gain != 1:
            raise InputError(
                f"gain={self.gain:g} with an encoder of your own",
                "it scales the initial weights of the two GCN layers",
                "Scale those of your encoder, and leave gain= out",
            )
        self.drop_rates = _rates(self.drop_rates, "drop_rates")
        self.mask_rates = _rates(self.mask_rates, "mask_rates")
        self.temperature = check_temperature(self.temperature)
        self.learning_rate = arguments.real(
            self.learning_rate,
            "learning_rate",
            lambda rate: 0 < rate <= LARGEST_FLOAT32,
            "it must be positive, and finite in float32",
            "Try 5e-4",
        )
        arguments.choice(self.schedule, "schedule", get_args(Schedule))
        self.weight_decay = arguments.real(
            self.weight_decay,
            "weight_decay",
            lambda decay: 0 <= decay <= LARGEST_FLOAT32,
            "it must not be negative, and finite in float32",
            "Try 1e-5, or 0",
        )
        self.epochs = arguments.whole(self.epochs, "epochs", 0, "it must be an int of at least 0", "Try 200")
        if self.batch is not None:
            self.batch = arguments.whole(
                self.batch, "batch", 2, "a node is compared with others: an int of at least 2", "Try 2048, or None"
            )
        if self.batch_nodes is not None:
            self.batch_nodes = arguments.whole(
                self.batch_nodes,
                "batch_nodes",
                2,
                "a node is contrasted with others of its batch: an int of at least 2",
                "Try 1024, or None for the whole graph",
            )
        self.fanout = arguments.whole(
            self.fanout, "fanout", -1, "it is a number of neighbours, or -1 for all", "Try 10", most=WIDEST
        )
        if self.fanout == 0:
            raise InputError("fanout=0", "it is a number of neighbours, or -1 for all", "Try 10")
        if self.regularizer is not None and not isinstance(self.regularizer, CompactnessRegularizer):
            raise InputError(
                f"regularizer={arguments.shown(self.regularizer)}",
                "it is a CompactnessRegularizer, or None",
                "Pass regularizer=certgcl.CompactnessRegularizer(...)",
            )
        self.inside_budget = arguments.flag(self.inside_budget, "inside_budget")
        self.seed = arguments.seed(self.seed)
        device = arguments.device(self.device)
        self.device = self.device if isinstance(self.device, str) or device is None else str(device)
        if self.inside_budget and self.regularizer is None:
            raise InputError(
                "inside_budget=True without a regularizer",
                "its budget is what the views stay inside",
                "Pass regularizer=certgcl.CompactnessRegularizer(...)",
            )
        if self.inside_budget and self.batch_nodes is not None:
            raise InputError(
                "inside_budget=True with batch_nodes",
                "views of a sample are not views of the graph, so they cannot stay inside its budget",
                "Leave one of them out",
            )

    # -- the estimator -----------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as the constructor takes them; ``deep`` adds those of the regularizer, as
        ``regularizer__kappa``."""
        own = {setting.name: getattr(self, setting.name) for setting in fields(self) if setting.init}
        if not arguments.flag(deep, "deep") or self.regularizer is None:
            return own
        return own | {f"{_REGULARIZER}{name}": value for name, value in self.regularizer.get_params().items()}

    def set_params(self, **settings: Any) -> Self:
        """Change settings, also those of the regularizer; unknown names raise an error, and then nothing is changed."""
        known = self.get_params(deep=False)
        inner = {name.removeprefix(_REGULARIZER): settings[name] for name in settings if name.startswith(_REGULARIZER)}
        own = {name: value for name, value in settings.items() if not name.startswith(_REGULARIZER)}
        for name in own:
            if name not in known:
                raise InputError(f"setting {name!r}", f"{type(self).__name__} has {', '.join(known)}", "Fix the name")
        if inner:
            regularizer = own.get("regularizer", self.regularizer)
            if not isinstance(regularizer, CompactnessRegularizer):
                raise InputError(
                    f"setting {_REGULARIZER}{next(iter(inner))} without a regularizer",
                    "it is a setting of the regularizer",
                    "Pass regularizer=certgcl.CompactnessRegularizer(...)",
                )
            own["regularizer"] = regularizer.with_params(**inner)
        checked = type(self)(**{**known, **own})  # raises the errors of the constructor
        for name in own:
            setattr(self, name, getattr(checked, name))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self.encoder_ is not None

    def __sklearn_tags__(self) -> Any:
        """The tags that scikit-learn requires: this estimator transforms graphs, and needs no labels."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False),
        )

    @told_when_out_of_memory(LESS_AT_A_TIME)
    def fit(
        self,
        data: GraphLike,
        y: Any = None,
        *,
        folder: str | Path | None = None,
        resume: bool = False,
        progress: Callable[[Progress], None] | None = None,
        distributed: bool = False,
        **options: Any,
    ) -> Self:
        """Train on a graph; with a ``folder``, checkpoints and the history are kept there and ``resume`` continues.

        ``y`` is ignored: it is there for scikit-learn's pipelines. Further options are those of
        :func:`certgcl.learning.training.train`.

        Args:
            distributed: train together with the other processes that torchrun has started, each on its own batches of
                ``batch_nodes``. All of them call ``fit`` with the same arguments and end with the same weights; the
                first one writes the folder.
        """
        if arguments.flag(distributed, "distributed") and self.batch_nodes is None:
            raise InputError(
                "distributed=True without batch_nodes",
                "processes share the batches of an epoch",
                "Pass batch_nodes= (--batch-nodes)",
            )
        with Processes.joined() if distributed else nullcontext(ALONE) as processes:
            session = self.session(_graph(data), processes)
            with one_thread() if session.graph.num_nodes < MANY_NODES else nullcontext():
                self.history_ = train(
                    session,
                    self.epochs,
                    folder=folder,
                    resume=resume,
                    progress=progress,
                    config=None if folder is None else self.run_config(session.graph) | session.facts(),
                    **options,
                )
        self.encoder_, self.n_features_in_ = session.encoder.eval(), session.graph.num_features
        return self

    @told_when_out_of_memory(SMALLER)
    def transform(self, data: GraphLike) -> Tensor:
        """The embeddings of all nodes on the graph as given, ``(N, width)``: of the encoder, not of the projector."""
        with torch.no_grad():
            network = self.network()
            return network.embed(Graph.of(_graph(data)).to(network.device, network.dtype)).to(network.precision)

    def fit_transform(self, data: GraphLike, y: Any = None, **options: Any) -> Tensor:
        return self.fit(data, y, **options).transform(data)

    def network(self) -> GraphNetwork:
        """The fitted encoder as a network."""
        encoder = self.fitted_encoder()
        if isinstance(encoder, GraphNetwork):
            return encoder
        return network_of(encoder, self.n_features_in_)

    def fitted_encoder(self) -> nn.Module | GraphNetwork:
        """The trained module; for a method with its own encoder that was loaded from a file, the network."""
        if self.encoder_ is None:
            raise NotFittedError(
                f"a {type(self).__name__} that is not fitted",
                "it has no encoder yet",
                "Call fit(data) or load(path) first",
            )
        return self.encoder_

    def settings(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        settings = self.get_params(deep=False) | {"encoder": name_of(self.encoder)}
        if self.regularizer is not None:
            settings["regularizer"] = self.regularizer.to_dict()
        return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}

    def run_config(self, graph: Graph) -> dict[str, Any]:
        """The settings that a run depends on. The number of epochs, which may grow when a run is resumed, is one of
        them only if the learning rate follows it."""
        graph = Graph.of(graph)
        check_named(self.encoder)
        settings = self.settings()
        if self.schedule == "constant":
            del settings["epochs"]
        return {
            "method": type(self).__name__,
            "settings": settings,
            "graph": repr(graph),
            "graph_sha256": digest(graph.rowptr, graph.col, *stored_parts(graph.x)),
        }

    def save(self, path: str | Path) -> Path:
        """Write settings and encoder to one file, which ``load`` and ``torch.load(weights_only=True)`` read."""
        return save_method(arguments.path(path), self)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A fitted method from a file of :meth:`save`; called on ``ContrastiveMethod`` itself, of any method."""
        return load_method(arguments.path(path), cls)

    # -- differences between the methods ----------------------------------------------------------------

    def session(self, data: GraphLike, processes: Processes = ALONE) -> ContrastiveSession:
        """A training run about to start, in this process or together with others."""
        return ContrastiveSession(self, Graph.of(data), processes)

    def new_encoder(self, features: int) -> nn.Module:
        """The module that a training run starts with."""
        return new_encoder(self.encoder, features, self.hidden, self.activation, self.gain)

    def drop_probabilities(self, graph: Graph) -> tuple[float | Tensor, float | Tensor]:
        """Drop probabilities of the edges, for each view: one for all, or one for each undirected edge."""
        return self.drop_rates

    def mask_probabilities(self, graph: Graph) -> tuple[float | Tensor, float | Tensor]:
        """Mask probabilities of the feature columns, for each view."""
        return self.mask_rates

    def contrast(self, session: ContrastiveSession, z1: Tensor, z2: Tensor, epoch: int) -> Tensor:
        """The contrastive loss of two views' embeddings."""
        check_contrast(session, ContrastiveSession, z1, z2, epoch)
        return info_nce(session.projector(z1), session.projector(z2), self.temperature).mean()


def _graph(data: Any) -> Any:
    """The graph itself, or the one in a list."""
    return data[0] if isinstance(data, list) and len(data) == 1 else data


def _rates(rates: Any, name: str) -> tuple[float, float]:
    rule, remedy = "there is one rate in [0, 1) for each of the two views", "Pass two numbers, as (0.4, 0.3)"
    given = arguments.items(rates, name, rule, remedy)
    if len(given) != 2:
        raise InputError(f"{name}={arguments.shown(rates)}", rule, remedy)
    first, second = (arguments.real(rate, name, lambda rate: 0 <= rate < 1, rule, remedy) for rate in given)
    return (first, second) if type(rates) is not tuple or rates != (first, second) else rates
