"""The boxes of a box plot, found again in what matplotlib drew: one patch a box, and lines for the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch


@dataclass
class Box:
    """`low` and `high` are along the values, `left` and `right` across."""

    label: str
    left: float
    right: float
    low: float
    high: float
    median: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    outliers: list[float] = field(default_factory=list)

    def spans(self, across: list[float]) -> bool:
        return all(self.left <= each <= self.right for each in across)

    def add_line(self, across: list[float], values: list[float]) -> None:
        if values[0] == values[1]:
            if self.low <= values[0] <= self.high:
                self.median = values[0]
        elif max(values) == self.low:
            self.minimum = min(values)
        elif min(values) == self.high:
            self.maximum = max(values)

    def element(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "min": self.low if self.minimum is None else self.minimum,
            "first_quartile": self.low,
            "median": self.median,
            "third_quartile": self.high,
            "max": self.high if self.maximum is None else self.maximum,
            "outliers": self.outliers,
        }


def boxes_of(axes: Axes) -> tuple[bool, list[dict[str, Any]]]:
    """@return whether the values are along the horizontal axis, and the boxes"""
    lines = [(_rounded(line.get_xdata()), _rounded(line.get_ydata())) for line in axes.lines]
    patches = [each for each in axes.patches if isinstance(each, PathPatch)]
    is_horizontal = not any(_has_median(patch, x, y) for patch in patches for x, y in lines)
    ticks = axes.get_yticklabels() if is_horizontal else axes.get_xticklabels()
    boxes = [
        _box(patch, tick.get_text(), is_horizontal) for patch, tick in zip(patches, ticks, strict=False)
    ]
    for x, y in lines:
        across, values = (y, x) if is_horizontal else (x, y)
        box = next((each for each in boxes if across and each.spans(across)), None)
        if box is None:
            continue
        # One line has all outliers of a box.
        if len(values) == 2 and across[0] != across[1] or len(values) == 2 and _is_whisker(box, values):
            box.add_line(across, values)
        else:
            box.outliers.extend(values)
    return is_horizontal, [each.element() for each in boxes]


def _is_whisker(box: Box, values: list[float]) -> bool:
    return max(values) == box.low or min(values) == box.high


def _box(patch: PathPatch, label: str, is_horizontal: bool) -> Box:
    x, y = _extents(patch)
    (left, right), (low, high) = (y, x) if is_horizontal else (x, y)
    return Box(label, left, right, low, high)


def _has_median(patch: PathPatch, x: list[float], y: list[float]) -> bool:
    """Whether the line lies across the box, at one height: that of upright boxes."""
    (left, right), (low, high) = _extents(patch)
    if len(x) != 2 or x[0] == x[1] or y[0] != y[1]:
        return False
    return min(x) >= left and max(x) <= right and low <= y[0] <= high and max(x) - min(x) == right - left


def _extents(patch: PathPatch) -> tuple[tuple[float, float], tuple[float, float]]:
    vertices = patch.get_path().vertices
    x, y = _rounded(vertices[:, 0]), _rounded(vertices[:, 1])
    return (min(x), max(x)), (min(y), max(y))


def _rounded(values: Any) -> list[float]:
    """Digits beyond the ninth are noise of the drawing."""
    return [float(f"{float(each):.9g}") for each in values]
