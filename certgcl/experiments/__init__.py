"""The paper's experiments, each drawn for the paper's score and for the certified bound."""

from certgcl.experiments import (
    augmentations,
    compactness_curve,
    degree,
    imbalance,
    infonce,
    kappa,
    sensitivity,
    table,
)
from certgcl.experiments.experiment import Experiment, Outcome, reproduce
from certgcl.experiments.runs import Study

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (imbalance, compactness_curve, degree, kappa, infonce, augmentations, sensitivity, table)
}
"""All experiments by name, in the order of the paper."""

__all__ = ["EXPERIMENTS", "Experiment", "Outcome", "Study", "reproduce"]
