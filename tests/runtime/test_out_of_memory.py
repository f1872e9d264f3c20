"""Memory that runs out is one error with words, at every public entry; other errors stay what they are."""

import errno
import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import certgcl
from certgcl.certify import audit
from certgcl.errors import BoundError, OutOfMemoryError
from certgcl.runtime.out_of_memory import is_out_of_memory, out_of_memory, told_when_out_of_memory
from tests.cli.running import run
from tests.toys import random_graph, random_tensor, toy_network

GRAPH, WEIGHTS = random_graph(), toy_network()
CPU = (
    "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "8000000000 bytes. Error code 12 (Cannot allocate memory)"
)


def numpys_own() -> BaseException:
    with pytest.raises(MemoryError) as caught:
        np.empty(1 << 60, dtype=np.uint8)
    return caught.value


OUT_OF_MEMORY: list[BaseException] = [
    MemoryError(),
    numpys_own(),
    RuntimeError(CPU),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"),
    RuntimeError("[enforce fail at x.cpp] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"),
    RuntimeError("std::bad_alloc"),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ImportError("libx.so: failed to map segment from shared object: Cannot allocate memory"),
]
OTHERS: list[BaseException] = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"),
    RuntimeError("memory format"),
    RuntimeError("Expected all tensors to be on the same device"),
    ValueError("out of memory"),
    KeyError("out of memory"),
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    ImportError("No module named 'memory'"),
    KeyboardInterrupt(),
    BoundError("a bound", "CUDA out of memory", "none"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=repr)
def test_every_way_to_say_it_is_understood(error: BaseException) -> None:
    assert is_out_of_memory(error)
    message = r"^a sum without enough memory \(.+\): it must fit into .*GB.* free"
    with pytest.raises(OutOfMemoryError, match=message) as caught, out_of_memory("a sum"):
        raise error
    assert caught.value.__cause__ is error
    assert isinstance(caught.value, MemoryError)


@pytest.mark.parametrize("error", OTHERS, ids=repr)
def test_other_errors_stay_what_they_are(error: BaseException) -> None:
    assert not is_out_of_memory(error)
    with pytest.raises(type(error)) as caught, out_of_memory("a sum"):
        raise error
    assert caught.value is error


def test_the_message_names_limit_and_way_out() -> None:
    with pytest.raises(OutOfMemoryError) as caught, out_of_memory("node_compactness", memory_limit=7):
        raise RuntimeError(CPU)
    assert caught.value.found == (
        "node_compactness without enough memory (DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 8000000000 bytes. Error code 12 (Cannot allocate memory))"
    )
    assert caught.value.rule.endswith("memory_limit=7 is no more than an estimate")
    for way in ("memory_limit=", "nodes=", "certify_shards", "degree-cheap", "float32"):
        assert way in caught.value.remedy


def test_an_inner_entry_has_the_word() -> None:
    @told_when_out_of_memory("Do less")
    def inner(memory_limit: int) -> None:
        raise MemoryError

    with pytest.raises(OutOfMemoryError, match=r"^inner without .*memory_limit=5 .*Do less$"), out_of_memory("outer"):
        inner(memory_limit=5)


def test_what_was_held_is_free_for_another_try() -> None:
    seen: list[Any] = []

    @told_when_out_of_memory()
    def fills() -> None:
        large = torch.zeros(10)
        seen.append(weakref.ref(large))
        raise MemoryError

    with pytest.raises(OutOfMemoryError) as caught:
        fills()
    gc.collect()
    assert seen[0]() is None
    assert caught.value.__traceback__ is not None


# -- public entries --------------------------------------------------------------------------------


def fails(*_: Any, **__: Any) -> None:
    raise RuntimeError(CPU)


DIRECTIONS = random_tensor(12, 3, seed=0)
LABELS = torch.arange(12) % 2
ENTRIES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "node_compactness": (
        "certgcl.certify.certification.Question._problem",
        lambda _: certgcl.node_compactness(WEIGHTS, GRAPH, 1),
    ),
    "linear_bounds": (
        "certgcl.certify.certification.Question._problem",
        lambda _: certgcl.linear_bounds(WEIGHTS, GRAPH, 1, DIRECTIONS),
    ),
    "certified_accuracy": (
        "certgcl.models.network.GraphNetwork.embed",
        lambda _: certgcl.certified_accuracy(WEIGHTS, DIRECTIONS[:2], GRAPH, LABELS, 1),
    ),
    "certify_shards": (
        "certgcl.certify.certification.Question._problem",
        lambda folder: certgcl.certify_shards(WEIGHTS, GRAPH, 1, folder),
    ),
    "audit": ("certgcl.certify.audit.EdgeDropper", lambda _: audit.audit(WEIGHTS, GRAPH, 1)),
    "fit": ("certgcl.learning.methods.base.train", lambda _: certgcl.GRACE(hidden=4, epochs=1).fit(GRAPH)),
    "evaluate": (
        "certgcl.learning.evaluation.protocols._probe",
        lambda _: certgcl.evaluate(random_tensor(20, 3, seed=0), torch.arange(20) % 2),
    ),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_public_entry_says_it(entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, call = ENTRIES[entry]
    monkeypatch.setattr(where, fails)
    with pytest.raises(OutOfMemoryError, match=rf"^{entry} without enough memory \(DefaultCPUAllocator"):
        call(tmp_path / "out")


def test_the_command_line_says_it_without_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certgcl.certify.certification.Question._problem", fails)
    graph, weights = certgcl.save_graph(tmp_path / "graph", GRAPH), WEIGHTS.save(tmp_path / "weights.npz")
    result = run(
        "certify",
        "--graph",
        str(graph),
        "--weights",
        str(weights),
        "--budget",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--memory-limit",
        "0.5",
        "--json",
    )
    assert result.exit_code == 1
    assert result.stderr.startswith("OutOfMemoryError\n")
    assert "Traceback" not in result.stderr
    error = json.loads(result.stdout)["error"]
    assert "memory_limit=536870912" in error["rule"]
    assert "--memory-limit" in error["remedy"]


# -- a process that may have no more ---------------------------------------------------------------

LIMITED = """
import resource, sys
import psutil, torch
import certgcl
from certgcl.errors import OutOfMemoryError

nodes, width = 4000, 512
ring = torch.arange(nodes)
edges = torch.stack([torch.cat([ring, (ring + 1) % nodes]), torch.cat([(ring + 1) % nodes, ring])])
graph = certgcl.Graph.from_edges(torch.randn(nodes, 8), edges)
torch.manual_seed(0)
encoder = certgcl.GCNEncoder(8, width, width)
few = certgcl.node_compactness(encoder, graph, 1, nodes=[0], method="degree-cheap")  # kernels are there
limit = psutil.Process().memory_info().vms + 3 * 2**26
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for entry in (certgcl.node_compactness, lambda *a, **k: certgcl.certify_shards(*a, sys.argv[1], **k)):
    try:
        entry(encoder, graph, 1, memory_limit=2**40)
    except OutOfMemoryError as error:
        print(error)
again = certgcl.node_compactness(encoder, graph, 1, nodes=[0], method="degree-cheap")  # and the memory is free again
print(torch.equal(few.lower, again.lower))
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of a process are a matter of POSIX")
def test_a_real_limit_is_named(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(certgcl.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "out")],
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    alone, sharded, again = result.stdout.splitlines()
    assert alone.startswith("node_compactness without enough memory")
    assert sharded.startswith("certify_shards without enough memory")
    assert "that the process may address (ulimit -v)" in alone
    assert "memory_limit=1099511627776" in alone
    assert again == "True"
