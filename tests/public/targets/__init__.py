"""The public calls of certgcl with valid arguments, on a graph of eight nodes."""

from pathlib import Path

from tests.public.fuzz import Target
from tests.public.targets.bounded import accuracies, bounds_of_methods
from tests.public.targets.certificates import certificates, whole_graphs
from tests.public.targets.inputs import budgets, encoders, files, graphs
from tests.public.targets.learned import evaluations, methods, regularizers
from tests.public.targets.world import World


def public_calls(folder: Path) -> list[Target]:
    world = World(folder)
    kinds = (
        graphs,
        budgets,
        encoders,
        bounds_of_methods,
        certificates,
        whole_graphs,
        accuracies,
        files,
        evaluations,
        regularizers,
        methods,
    )
    return [target for kind in kinds for target in kind(world)]
