"""The data of a matplotlib figure, in the form of E2B's charts."""

from __future__ import annotations

from typing import Any, Callable

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle, Wedge
from matplotlib.text import Text

from .chart_axes import labels_of, named, scales_of, title_of
from .chart_boxes import boxes_of
from .display import MAX_VALUES, plain

Chart = dict[str, Any]


def chart_of_figure(figure: Figure) -> Chart | None:
    """None if nothing is drawn, or too much."""
    axes = figure.get_axes()
    if not any(each.has_data() for each in axes):
        return None
    if len(axes) == 1:
        return chart_of_axes(axes[0])
    elements = [chart_of_axes(each) for each in axes]
    return {"type": "superchart", "title": figure.get_suptitle() or None, "elements": elements}


def chart_of_axes(axes: Axes) -> Chart:
    artists = [each for each in axes.get_children() if _is_drawn(axes, each)]
    for kinds, chart in _charts:
        # Lines of the grid are in boxes too.
        of_data = artists if Line2D in kinds else [each for each in artists if not _is_guide(each)]
        if all(isinstance(each, kinds) for each in of_data):
            return chart(axes)
    return {"type": "unknown", "title": title_of(axes), "elements": []}


def _line_chart(axes: Axes) -> Chart:
    lines = [each for each in axes.get_lines() if not _is_guide(each)]
    elements = [
        {"label": named(line.get_label(), "_child", "Line "), "points": _points(line.get_xdata(), line.get_ydata())}
        for line in lines
    ]
    return {"type": "line", **labels_of(axes), **scales_of(axes), "elements": elements}


def _scatter_chart(axes: Axes) -> Chart:
    elements = [
        {"label": str(each.get_label()), "points": _points(*each.get_offsets().T)} for each in axes.collections
    ]
    return {"type": "scatter", **labels_of(axes), **scales_of(axes), "elements": elements}


def _bar_chart(axes: Axes) -> Chart:
    elements: list[Chart] = []
    is_horizontal = any(getattr(each, "orientation", "vertical") == "horizontal" for each in axes.containers)
    ticks = axes.get_yticklabels() if is_horizontal else axes.get_xticklabels()
    for container in axes.containers:
        group = named(container.get_label(), "_container", "Group ")
        for tick, bar in zip(ticks, container, strict=False):
            value = bar.get_width() if is_horizontal else bar.get_height()
            elements.append({"label": tick.get_text(), "group": group, "value": plain(float(value))})
    return {"type": "bar", **labels_of(axes, swapped=is_horizontal), "elements": elements}


def _pie_chart(axes: Axes) -> Chart:
    elements = [
        {"label": str(each.get_label()), "angle": _rounded(abs(each.theta2 - each.theta1)), "radius": float(each.r)}
        for each in axes.patches
        if isinstance(each, Wedge)
    ]
    return {"type": "pie", "title": title_of(axes), "elements": elements}


def _box_chart(axes: Axes) -> Chart:
    is_horizontal, elements = boxes_of(axes)
    return {"type": "box_and_whisker", **labels_of(axes, swapped=is_horizontal), "elements": elements}


#: The first whose kinds of artists are the only ones.
_charts: list[tuple[tuple[type, ...], Callable[[Axes], Chart]]] = [
    ((Line2D,), _line_chart),
    ((PathPatch, Line2D), _box_chart),
    ((PathCollection,), _scatter_chart),
    ((Wedge,), _pie_chart),
    ((Rectangle,), _bar_chart),
]


def _is_drawn(axes: Axes, artist: Any) -> bool:
    """Whether the program drew it: the axes' own parts, texts and the legend are not data."""
    own = [axes.xaxis, axes.yaxis, axes.patch, axes.get_legend(), *axes.spines.values()]
    return not isinstance(artist, Text) and not any(artist is each for each in own)


def _is_guide(artist: Any) -> bool:
    """A horizontal or vertical line between two points."""
    if not isinstance(artist, Line2D):
        return False
    x, y = artist.get_xdata(), artist.get_ydata()
    return len(x) == 2 and len(y) == 2 and bool(x[0] == x[1] or y[0] == y[1])


def _points(x: Any, y: Any) -> list[tuple[Any, Any]]:
    if len(x) > MAX_VALUES:
        raise ValueError("too many points")
    return [(plain(each), plain(other)) for each, other in zip(x, y, strict=False)]


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")
