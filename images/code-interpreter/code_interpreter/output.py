"""Translates what a kernel sends to lines of the answer."""

from __future__ import annotations

from typing import Any, Iterator

Line = dict[str, Any]

END: Line = {"type": "end_of_execution"}

_FORMATS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


def error_line(name: str, value: str, traceback: str = "") -> Line:
    return {"type": "error", "name": name, "value": value, "traceback": traceback}


def lines_of(message: dict[str, Any]) -> Iterator[Line]:
    """The lines for one message of the kernel's output channel. Most kinds have none."""
    content = message["content"]
    match message["msg_type"]:
        case "stream":
            yield {"type": content["name"], "text": content["text"], "timestamp": _time(message)}
        case "display_data":
            yield _result(content["data"], is_main=False)
        case "execute_result":
            yield _result(content["data"], is_main=True)
        case "execute_input":
            yield {"type": "number_of_executions", "execution_count": content["execution_count"]}
        case "error":
            yield error_line(content["ename"], content["evalue"], "\n".join(content["traceback"]))


def is_idle(message: dict[str, Any]) -> bool:
    return message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"


def _time(message: dict[str, Any]) -> str:
    date = message["header"]["date"]
    return date if isinstance(date, str) else str(date.isoformat())


def _result(data: dict[str, Any], is_main: bool) -> Line:
    known = {_FORMATS[kind]: value for kind, value in data.items() if kind in _FORMATS}
    extra = {kind: value for kind, value in data.items() if kind not in _FORMATS}
    if "text" in known:
        known["text"] = _unquoted(known["text"])
    return {"type": "result", **known, "extra": extra, "is_main_result": is_main}


def _unquoted(text: str) -> str:
    """A result that is a string is shown without its quotes."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
