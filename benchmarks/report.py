"""The options, aims and tables of a benchmark, and its results as JSON."""

import argparse
import importlib
import json
import os
import platform
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch

import certgcl
from benchmarks import measure


def parser(document: str | None, threads: int | None = None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(document or "").split("\n\n")[0])
    made.add_argument("--json", type=Path, help="also write the results to this file")
    made.add_argument("--threads", type=int, default=threads or torch.get_num_threads())
    return made


def add_sizes(made: argparse.ArgumentParser, sizes: Collection[int]) -> None:
    made.add_argument("--smallest", type=int, default=min(sizes), help="smallest number of nodes")
    made.add_argument("--largest", type=int, default=max(sizes), help="largest number of nodes")
    made.add_argument("--keep", action="store_true", help="keep the rows of other sizes that FILE holds")


def chosen(made: argparse.ArgumentParser, sizes: Collection[int]) -> tuple[argparse.Namespace, list[int], list[Any]]:
    """The arguments, the requested sizes, and the rows of all others that are kept."""
    arguments = made.parse_args()
    if arguments.keep and not (arguments.json and arguments.json.exists()):
        made.error("--keep takes the rows of other sizes from an existing file: name it by --json FILE")
    asked = [nodes for nodes in sizes if arguments.smallest <= nodes <= arguments.largest]
    rows = json.loads(arguments.json.read_text())["rows"] if arguments.keep else []
    return arguments, asked, [row for row in rows if row["nodes"] not in asked]


def memory_limit(gb: float | None) -> dict[str, Any]:
    """The argument of ``node_compactness`` that limits its memory; none if no limit is given."""
    return {} if gb is None else {"memory_limit": int(gb * measure.GB)}


def aim(
    what: str, value: float | None, at_most: float | None = None, at_least: float | None = None, failed: bool = False
) -> dict[str, Any]:
    """One aim; ``met`` is None if nothing was measured, unless it ``failed`` for lack of memory."""
    met = None if value is None else (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
    return {"what": what, "at_most": at_most, "at_least": at_least, "value": value, "met": False if failed else met}


def machine() -> dict[str, Any]:
    memory = measure.proc("/proc/meminfo", "MemTotal")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": measure.proc("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": cores,
        "threads": torch.get_num_threads(),
        "memory_gb": None if memory is None else round(int(memory) / 1024**2),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "certgcl": certgcl.__version__,
    }


def _rounded(value: Any) -> Any:
    """Six digits are more than any measurement has."""
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# -- reports ---------------------------------------------------------------------------------------


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; numbers with about three digits, None as a dash."""
    lines = [list(columns), ["---"] + ["---:"] * (len(columns) - 1), *([shown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if value == 0 or not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2g}"
    whole = len(str(int(abs(value))))
    return f"{value:,.{max(0, 3 - whole) if abs(value) >= 1 else 3}f}"


def publish(benchmark: str, file: Path | None, **parts: Any) -> None:
    """Write the results of a finished benchmark, if a file is given, and print their report."""
    print(f"\n{report(save(benchmark, file, **parts))}")


def save(benchmark: str, file: Path | None, **parts: Any) -> dict[str, Any]:
    """Write results, if a file is given; a long benchmark does this after every size, so that an interruption loses
    nothing."""
    result = {"benchmark": benchmark, "machine": machine(), **parts}
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_rounded(result), indent=2) + "\n")
    return result


def report(result: dict[str, Any]) -> str:
    """The tables of one benchmark, its aims, and where it ran."""
    # Found by name, since a benchmark that is being run has another name.
    tables: list[str] = importlib.import_module(f"benchmarks.{result['benchmark']}").tables(result)
    goals = [aims(result["aims"])] if result["aims"] else []
    return "\n\n".join([*tables, *goals, where(result["machine"])])


def aims(found: Sequence[dict[str, Any]]) -> str:
    def verdict(one: dict[str, Any]) -> str:
        return {None: "not measured", True: "met", False: "not met"}[one["met"]]

    def limit(one: dict[str, Any]) -> str:
        return f"≤ {shown(one['at_most'])}" if one["at_most"] is not None else f"≥ {shown(one['at_least'])}"

    return markdown(
        ["aim", "limit", "measured", ""], [[one["what"], limit(one), one["value"], verdict(one)] for one in found]
    )


def where(machine: dict[str, Any]) -> str:
    return (
        f"On {machine['cpu']}, {machine['threads']} thread(s) on {machine['cores']} core(s), "
        f"{machine['memory_gb']} GB, torch {machine['torch']}."
    )
