"""Measurements of a trained encoder; each is kept in the folder of its training run."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import node_compactness
from certgcl.errors import CheckpointError
from certgcl.experiments.runs import TrainedRun
from certgcl.experiments.tables import Row
from certgcl.files.atomic import load_arrays, refusing, save_arrays, save_sealed_json
from certgcl.files.strict_json import read_sealed
from certgcl.learning.evaluation import Evaluation, evaluate
from certgcl.learning.methods.infonce import info_nce

SPLITS = 3  # random splits of the graphs without a public one
_EVALUATION, _INFONCE = "certgcl-evaluation-2", "certgcl-infonce-2"
_DELETE = "Delete it: it is recomputed"


def labels(run: TrainedRun) -> Row:
    """The columns that every row begins with."""
    recipe = run.recipe
    return {"dataset": run.study.dataset, "method": recipe.method, "variant": recipe.variant, "seed": recipe.seed}


# -- accuracy --------------------------------------------------------------------------------------


def evaluation(run: TrainedRun) -> Evaluation:
    """Micro- and Macro-F1 of a linear probe, under the protocol of the graph."""
    path, data = run.folder / "evaluation.json", run.study.data
    if path.exists():
        with refusing(path, CheckpointError, f"it must be a whole file in the format {_EVALUATION}", _DELETE):
            found = read_sealed(path, _EVALUATION)
            return Evaluation(found["protocol"], tuple(found["micro"]), tuple(found["macro"]))
    with torch.no_grad():
        embeddings = run.network().embed(run.study.graph)
    protocol = run.study.preset(run.recipe.method).protocol
    made = evaluate(embeddings, data.y, protocol, masks=data, seeds=SPLITS)
    save_sealed_json(path, {"format": _EVALUATION, **made.to_dict()})
    return made


def f1(run: TrainedRun) -> Row:
    found = evaluation(run)
    return {"micro": found.micro_mean, "macro": found.macro_mean}


# -- compactness -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compactness:
    """For the sampled nodes: the value on the graph as given, the paper's score (not a bound) and the certified bound.

    Args:
        norm: the mean norm of all embeddings.
    """

    clean: Tensor
    paper_score: Tensor
    certified_bound: Tensor
    share_certified: float
    norm: float

    def mean(self) -> Row:
        """A summary. ``paper_above_clean`` is the share of nodes where the paper's score exceeds the value on
        the graph itself, which is an admissible view: there it is certainly not a lower bound."""
        return {
            "clean": float(self.clean.mean()),
            "paper_score": float(self.paper_score.mean()),
            "certified_bound": float(self.certified_bound.mean()),
            "norm": self.norm,
            "share_certified": self.share_certified,
            "paper_above_clean": float((self.paper_score > self.clean).double().mean()),
        }


def compactness(run: TrainedRun, epoch: int | None = None) -> Compactness:
    """Both scores at the drop rate of the first view, with ``W^CL`` of the graph itself; at the end by default."""
    paper, certified = (_certificate(run, method, epoch) for method in ("released", "degree"))
    with torch.no_grad():
        norm = float(run.network(epoch).embed(run.study.graph).norm(dim=1).mean())
    return Compactness(certified.nominal, paper.lower, certified.lower, certified.share_positive, norm)


def _certificate(run: TrainedRun, method: str, epoch: int | None) -> Certificate:
    study, rate = run.study, run.estimator.drop_rates[0]
    at = run.estimator.epochs if epoch is None else epoch
    path = run.folder / f"{method}-{rate:g}-{len(study.sample)}-nodes-epoch-{at}.npz"
    if path.exists():
        return Certificate.load(path)
    certificate = node_compactness(run.network(at), study.graph, rate, method=method, nodes=study.sample)
    certificate.save(path)
    return certificate


# -- InfoNCE ---------------------------------------------------------------------------------------


def node_infonce(run: TrainedRun) -> tuple[Tensor, Tensor]:
    """The loss of every node over sampled pairs of views, through the trained projector: mean and standard error.

    GRACE's loss for all methods, with all nodes as negatives.
    """
    pairs = run.study.pairs
    path = run.folder / f"infonce-{pairs}-pairs.npz"
    if not path.exists():
        losses = _sampled_losses(run, pairs)
        mean, error = losses.mean(dim=0), losses.std(dim=0) / pairs**0.5
        save_arrays(path, {"format": _INFONCE}, {"mean": mean.numpy(), "error": error.numpy()})
    with refusing(path, CheckpointError, f"it must be a whole file in the format {_INFONCE}", _DELETE):
        arrays = load_arrays(path, _INFONCE, ("mean", "error"))[1]
    return torch.from_numpy(arrays["mean"]), torch.from_numpy(arrays["error"])


@torch.no_grad()
def _sampled_losses(run: TrainedRun, pairs: int) -> Tensor:
    """``(pairs, N)``, float64."""
    session = run.session()
    network = session.network()
    losses = []
    for pair in range(pairs):
        _, embeddings = session.sampled_views(network)
        p, q = map(session.projector, embeddings)
        losses.append(info_nce(p, q, run.estimator.temperature).double())
        run.study.say(f"{run.recipe}: {pair + 1}/{pairs} pairs of views")
    return torch.stack(losses)
