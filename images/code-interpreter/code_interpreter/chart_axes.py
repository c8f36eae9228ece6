"""Labels, units, ticks and scales of a chart."""

from __future__ import annotations

import re
from typing import Any

from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.axis import Axis


def title_of(axes: Axes) -> str | None:
    return axes.get_title() or None


def labels_of(axes: Axes, swapped: bool = False) -> dict[str, Any]:
    """The title and what is on both axes. Those of horizontal bars are exchanged: `x` is what the bars are of."""
    x, y = axes.get_xlabel() or None, axes.get_ylabel() or None
    if swapped:
        x, y = y, x
    return {"title": title_of(axes), "x_label": x, "y_label": y, "x_unit": _unit(x), "y_unit": _unit(y)}


def scales_of(axes: Axes) -> dict[str, Any]:
    return {**_scale("x", axes.xaxis), **_scale("y", axes.yaxis)}


def named(label: Any, automatic: str, prefix: str) -> str:
    """`_child0`, which matplotlib gives to what has no label, becomes `Line 0`."""
    text = str(label)
    return prefix + text[len(automatic) :] if text.startswith(automatic) else text


def _unit(label: str | None) -> str | None:
    """What is in brackets: `Time (s)`, `Speed [m/s]`."""
    found = re.search(r"\s\((.*?)\)|\[(.*?)\]", label or "")
    return (found.group(1) or found.group(2)) if found else None


def _scale(name: str, axis: Axis) -> dict[str, Any]:
    ticks = [float(each) for each in axis.get_ticklocs()]
    labels = [each.get_text() for each in axis.get_ticklabels()]
    if _has_dates(axis):
        shown: list[Any] = [dates.num2date(each).isoformat() for each in ticks]
        scale = "datetime"
    else:
        shown, scale = ticks, axis.get_scale()
        if scale == "linear" and _is_categorical(ticks, labels):
            scale = "categorical"
    return {f"{name}_ticks": shown, f"{name}_tick_labels": labels, f"{name}_scale": scale}


def _has_dates(axis: Axis) -> bool:
    kinds = (dates.DateConverter, dates.ConciseDateConverter, dates._SwitchableDateConverter)
    return isinstance(axis.get_converter(), kinds)


def _is_categorical(ticks: list[float], labels: list[str]) -> bool:
    """Ticks at 0, 1, 2 and so on, with other labels than these numbers."""
    pairs = list(zip(ticks, labels, strict=False))
    return bool(pairs) and all(tick == index and label != str(index) for index, (tick, label) in enumerate(pairs))
