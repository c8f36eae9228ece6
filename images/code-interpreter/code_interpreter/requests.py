"""Reads what clients send."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

DEFAULT_LANGUAGE = "python"
_ALIASES = {"py": "python", "python3": "python", "sh": "bash", "js": "javascript", "ts": "typescript"}


class RequestRefused(Exception):
    """An answer with a status and one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ExecuteRequest:
    code: str
    context_id: str | None = None
    language: str | None = None
    env_vars: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ContextRequest:
    language: str
    cwd: str | None = None


def parse_execute(body: bytes) -> ExecuteRequest:
    value = _object(body)
    code = value.get("code")
    if not isinstance(code, str):
        raise RequestRefused(400, "code must be a string")
    request = ExecuteRequest(code, _text(value, "context_id"), _language(value), _variables(value.get("env_vars")))
    if request.context_id and request.language:
        raise RequestRefused(400, "Only one of context_id or language can be provided")
    return request


def parse_context(body: bytes) -> ContextRequest:
    value = _object(body or b"{}")
    return ContextRequest(_language(value) or DEFAULT_LANGUAGE, _text(value, "cwd"))


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, f"the body must be JSON: {error}") from error
    if not isinstance(value, dict):
        raise RequestRefused(400, "the body must be a JSON object")
    return value


def _text(value: dict[str, Any], name: str) -> str | None:
    found = value.get(name)
    if found is None or found == "":
        return None
    if not isinstance(found, str) or len(found) > 4096 or "\0" in found:
        raise RequestRefused(400, f"{name} must be a string of at most 4096 characters")
    return found


def _language(value: dict[str, Any]) -> str | None:
    found = _text(value, "language")
    if found is None:
        return None
    name = found.strip().lower()
    # It becomes a part of a path.
    if not re.fullmatch(r"[a-z0-9][a-z0-9_+-]{0,63}", name):
        raise RequestRefused(400, f"language {found[:64]!r} is not the name of a language")
    return _ALIASES.get(name, name)


def _variables(found: Any) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise RequestRefused(400, "env_vars must be an object of strings")
    for name, text in found.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or not isinstance(text, str) or "\0" in text:
            raise RequestRefused(400, f"env_vars: {name[:64]!r} is not a variable with a text")
    return found
