"""The two hops around a node on rings: the node, its neighbours, theirs, and the nodes beyond that a witness
touches."""

import math

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from certgcl.graphs.graph import Graph
from certgcl.report.content import Edge, FragileNode, NodePicture, PicturePlace
from certgcl.report.svg import Svg, figure, to_svg

MOST_NEAR, MOST_FAR = 24, 36  # nodes on the first and on the second ring; ends of the witness come first
_MOST_NAMED, _MOST_BOLD = 16, 8  # ends of a witness that get numbers, and edges drawn in bold
_RADIUS = (0.0, 1.0, 2.0, 2.7)


# -- positions ---------------------------------------------------------------------------


def drawing_of(row: FragileNode, graph: Graph, labels: Tensor | None) -> NodePicture:
    """The drawing of a node that was searched."""
    assert row.witness is not None
    assert row.upper is not None
    dropped, added = (
        sorted(effect.edge for effect in row.effects if effect.added == new) if row.effects else whole
        for new, whole in ((False, row.witness), (True, row.added))
    )
    anchor, witness = row.node, dropped
    parents, hidden = _shown(graph, anchor, dropped + added)
    angles = _angles(parents, anchor)
    hops = _hops(parents, anchor)
    places = [
        PicturePlace(
            node,
            hops[node],
            round(_RADIUS[hops[node]] * math.cos(angle), 4),
            round(_RADIUS[hops[node]] * math.sin(angle), 4),
            None if labels is None else int(labels[node]),
        )
        for node, angle in angles.items()
    ]
    edges = [
        (node, other)
        for node in sorted(angles)
        for other in neighbours(graph, node)
        if node < other and other in angles
    ]
    reached = row.effects[-1].value if row.effects else row.upper
    return NodePicture(
        anchor,
        row.nominal,
        row.lower,
        reached,
        row.upper,
        len(row.witness) + len(row.added),
        places,
        edges,
        witness,
        hidden,
        added,
        row.features,
        row.name,
    )


def edges_of(witness: Tensor) -> list[Edge]:
    """Edges as pairs of nodes, the smaller first, in order."""
    return sorted((min(i, j), max(i, j)) for i, j in witness.T.tolist())


def neighbours(graph: Graph, node: int) -> list[int]:
    return graph.col[graph.rowptr[node] : graph.rowptr[node + 1]].tolist()


def _shown(graph: Graph, anchor: int, witness: list[Edge]) -> tuple[dict[int, int], int]:
    """The nodes to draw, each with its parent; and the number of nodes within two hops that do not fit."""
    near = neighbours(graph, anchor)
    inner = {anchor, *near}
    far = {other: node for node in reversed(near) for other in neighbours(graph, node) if other not in inner}
    ends = {end for edge in witness for end in edge}
    wanted = ends | {far[end] for end in ends if end in far}
    parents = dict.fromkeys(_first(near, wanted, MOST_NEAR), anchor)
    parents |= {
        node: far[node] for node in _first([node for node in sorted(far) if far[node] in parents], ends, MOST_FAR)
    }
    hidden = len(near) + len(far) - len(parents)
    for one, other in witness:
        for end, towards in ((one, other), (other, one)):
            if end != anchor and end not in parents:
                # An edge between two nodes that are far away is attached to the anchor.
                parents[end] = towards if towards == anchor or towards in parents else anchor
    return parents, hidden


def _first(nodes: list[int], wanted: set[int], most: int) -> list[int]:
    """At most ``most`` nodes in their order; those that are wanted are always among them."""
    kept = sorted(nodes, key=lambda node: node not in wanted)[: max(most, len(wanted.intersection(nodes)))]
    return sorted(kept)


def _hops(parents: dict[int, int], anchor: int) -> dict[int, int]:
    hops = {anchor: 0}
    for node, parent in parents.items():
        hops[node] = min(hops[parent] + 1, len(_RADIUS) - 1)
    return hops


def _angles(parents: dict[int, int], anchor: int) -> dict[int, float]:
    """Each node is in the middle of its share of the circle, which its own children divide among themselves.

    Half of a share is the same for all children of a node, half grows with their descendants.
    """
    children: dict[int, list[int]] = {}
    for node, parent in parents.items():
        children.setdefault(parent, []).append(node)
    angles = {}

    def size(node: int) -> int:
        return max(1, sum(map(size, children.get(node, []))))

    def place(node: int, start: float, width: float) -> None:
        angles[node] = start + width / 2
        below = children.get(node, [])
        whole = sum(map(size, below))
        for child in below:
            share = width * (0.5 / len(below) + 0.5 * size(child) / whole)
            place(child, start, share)
            start += share

    place(anchor, math.pi / 2, -2 * math.pi)
    return angles


# -- drawing ---------------------------------------------------------------------------


def draw(drawing: NodePicture) -> str:
    """The drawing as SVG: dropped edges dashed, new ones thick, nodes of the anchor's class filled."""
    sheet = figure(3.4, 3.4)
    sheet.set_layout_engine("none")
    axes = sheet.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_aspect("equal")
    at = {place.node: (place.x, place.y) for place in drawing.places}
    (left, right), (bottom, top) = ((min(values), max(values)) for values in zip(*at.values(), strict=True))
    reach = max(right - left, top - bottom) / 2 + 0.28
    middle = (left + right) / 2, (bottom + top) / 2
    axes.set(xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach))
    kept = [edge for edge in drawing.edges if edge not in drawing.witness]
    for edges, colour, width, dashes in (
        ([edge for edge in kept if drawing.node not in edge], Svg.FAINT, 0.7, None),
        ([edge for edge in kept if drawing.node in edge], Svg.MUTED, 1.0, None),
        (drawing.witness, Svg.BAD, 2.0 if len(drawing.witness) <= _MOST_BOLD else 1.2, (2.2, 1.4)),
        (drawing.added, Svg.GOOD, 2.6 if len(drawing.added) <= _MOST_BOLD else 1.4, None),
    ):
        axes.add_collection(
            LineCollection(
                [(at[i], at[j]) for i, j in edges], colors=colour, linewidths=width, linestyles=[(0, dashes)]
            )
        )
    _draw_nodes(axes, drawing)
    return to_svg(sheet, f"neighbourhood-{drawing.node}", _described(drawing))


def _draw_nodes(axes: Axes, drawing: NodePicture) -> None:
    own = next(place.label for place in drawing.places if place.hops == 0)
    ends = {end for edge in (*drawing.witness, *drawing.added) for end in edge}
    sizes, fills, rims = [], [], []
    for place in drawing.places:
        named = place.hops <= 1 or (place.node in ends and len(ends) <= _MOST_NAMED)
        alike = own is not None and place.label == own
        room = max(1.0, len(str(place.node)) / 3)  # longer numbers need larger circles, up to a point
        size, type_size = (26.0, 0.0) if not named else (210.0, 7.0) if place.hops else (400.0, 9.5)
        sizes.append(size * min(room, 1.5))
        fills.append(Svg.MAIN if place.hops == 0 else Svg.TINT if alike else Svg.PAPER)
        rims.append(Svg.BAD if place.node in ends and place.hops else Svg.MUTED)
        if named:
            axes.text(
                place.x,
                place.y,
                str(place.node),
                ha="center",
                va="center_baseline",
                zorder=4,
                fontsize=type_size / max(1.0, room / 1.2),
                color=Svg.INK if place.hops else Svg.PAPER,
            )
    axes.scatter(
        [place.x for place in drawing.places],
        [place.y for place in drawing.places],
        s=sizes,
        c=fills,
        edgecolors=rims,
        linewidths=0.9,
        zorder=3,
    )


def _described(drawing: NodePicture) -> str:
    return (
        f"Node {drawing.node}, {len(drawing.places) - 1} nodes around it and {len(drawing.edges)} edges, "
        f"{len(drawing.witness)} of them dropped by the witness"
        + (f", and {len(drawing.added)} added" if drawing.added else "")
    )
