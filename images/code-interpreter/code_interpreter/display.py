"""Results as data besides their text: columns of tables, charts of figures, JSON of lists and dictionaries."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from IPython.core.formatters import BaseFormatter, DisplayFormatter, JSONFormatter
from traitlets import ObjectName, Unicode

#: A larger table or chart has no data besides its text and picture.
MAX_VALUES = 100_000
MAX_JSON_BYTES = 1 << 20


def add_formatters(display: DisplayFormatter) -> None:
    display.formatters["e2b/data"] = TableFormatter(parent=display)
    display.formatters["e2b/chart"] = ChartFormatter(parent=display)
    display.formatters["application/json"] = ValueFormatter(parent=display)


class TableFormatter(BaseFormatter):
    """The columns of a pandas DataFrame. Something is one only if the program has imported pandas."""

    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict, str)

    def __call__(self, value: Any) -> Any:
        pandas = sys.modules.get("pandas")
        if pandas is None or not isinstance(value, pandas.DataFrame):
            return super().__call__(value)
        if value.size > MAX_VALUES:
            return None
        columns = value.to_dict(orient="list")
        return {str(name): [plain(each) for each in column] for name, column in columns.items()}


class ChartFormatter(BaseFormatter):
    """The chart of a matplotlib Figure."""

    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = (dict, str)

    def __call__(self, value: Any) -> Any:
        figure = sys.modules.get("matplotlib.figure")
        if figure is None or not isinstance(value, figure.Figure):
            return super().__call__(value)
        from .charts import chart_of_figure

        try:
            return chart_of_figure(value)
        except Exception:  # An unusual figure has its picture only.
            return None


class ValueFormatter(JSONFormatter):
    def __call__(self, value: Any) -> Any:
        if not isinstance(value, (list, dict)):
            return super().__call__(value)
        try:
            text = json.dumps(value, default=_of_numpy, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return None
        return (json.loads(text), {"expanded": True}) if len(text) <= MAX_JSON_BYTES else None


def plain(value: Any) -> Any:
    """A value of a table or chart as JSON has it."""
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()
    if type(value).__module__ == "numpy":
        return plain_numpy(value)
    return str(value)


def plain_numpy(value: Any) -> Any:
    kind = value.dtype.kind
    if kind == "M":
        return value.astype("datetime64[s]").astype(str)
    return plain(value.item()) if kind in "biufUO" else str(value)


def _of_numpy(value: Any) -> Any:
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(type(value).__name__)
