"""What the tests of reports share: a graph with labels and masks, and a page taken apart."""

import json
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import torch
from torch_geometric.data import Data

import certgcl
from certgcl import Certificate, Graph
from certgcl.learning.training import History
from certgcl.report import Report, ReportSource, build_report
from tests.toys import random_graph, toy_network

SECTIONS = ("summary", "values", "degrees", "curve", "accuracy", "explorer", "fragile", "training")


class Page(HTMLParser):
    """The text of a page without its scripts, its ids, and the JSON in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.text, self._json = "", ""
        self.feed(html)
        self.numbers: dict[str, Any] = json.loads(self._json)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [str(value) for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        if self.ids and self.ids[-1] == "numbers" and not self._json:
            self._json = data
        elif self.tags[-1:] != ["script"]:
            self.text += data


def data_of(graph: Graph, labels: bool = True) -> Data:
    n = graph.num_nodes
    part = torch.arange(n) % 4
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    y = (graph.x[:, 0] > 0).long() if labels else None
    return Data(x=graph.x, edge_index=graph.edge_index, y=y, **(masks if labels else {}))


@cache
def certified(method: str) -> Certificate:
    return certgcl.node_compactness(toy_network(), random_graph(20, 0.2), 1, method=method)


def source(method: str = "degree", **others: Any) -> ReportSource:
    graph, weights, certificate = random_graph(20, 0.2), toy_network(), certified(method)
    history = History([{"epoch": k, "seconds": 0.5, "loss": 2.0 - k, "pot": None if k else 1.0} for k in range(3)])
    return replace(ReportSource("toy", certificate, "random", data_of(graph), weights, "public", history), **others)


@cache
def whole_report() -> Report:
    return build_report(source(), sample=5)
