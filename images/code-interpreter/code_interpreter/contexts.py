"""All contexts of the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from .context import Context
from .languages import find_language
from .limits import MAX_CONTEXTS
from .memory import MemoryWatch
from .requests import DEFAULT_LANGUAGE, ContextRequest, ExecuteRequest, RequestRefused
from .variables import SandboxVariables


class Contexts:
    def __init__(self) -> None:
        self._variables = SandboxVariables()
        self._memory = MemoryWatch(self._variables, self.list)
        self._all: dict[str, Context] = {}
        #: For code without a context: one for each language.
        self._defaults: dict[str, Context] = {}
        self._default_turn = asyncio.Lock()
        self._starting = 0

    def list(self) -> list[Context]:
        return list(self._all.values())

    def get(self, id: str) -> Context:
        found = self._all.get(id)
        if found is None:
            raise RequestRefused(404, f"Context {id[:100]} not found")
        return found

    async def create(self, request: ContextRequest) -> Context:
        context = self._new(request)
        self._starting += 1
        try:
            await context.start()
        finally:
            self._starting -= 1
        self._all[context.id] = context
        return context

    def declare_default(self, language: str) -> None:
        """A default context that is listed before anyone uses it: its kernel starts with its first execution."""
        with contextlib.suppress(RequestRefused):
            context = self._defaults[language] = self._new(ContextRequest(language))
            self._all[context.id] = context

    def _new(self, request: ContextRequest) -> Context:
        language = find_language(request.language)
        cwd = request.cwd or home()
        if not os.path.isdir(cwd):
            raise RequestRefused(400, f"cwd {cwd} is not a directory")
        if len(self._all) + self._starting >= MAX_CONTEXTS:
            raise RequestRefused(429, f"the sandbox has {MAX_CONTEXTS} contexts already: remove one")
        return Context(language, cwd, self._variables, self._memory)

    async def of(self, request: ExecuteRequest) -> Context:
        if request.context_id:
            return self.get(request.context_id)
        return await self.default(request.language or DEFAULT_LANGUAGE)

    async def default(self, language: str) -> Context:
        async with self._default_turn:
            found = self._defaults.get(language)
            if found is None or found.id not in self._all:
                found = self._defaults[language] = await self.create(ContextRequest(language))
            return found

    async def remove(self, id: str) -> None:
        context = self.get(id)
        del self._all[id]
        await context.remove()

    async def close(self) -> None:
        """Executions break off instead of ending: their clients learn that the sandbox ended, and not only a context."""
        await asyncio.gather(*(context.stop(broken=True) for context in self.list()), return_exceptions=True)


def home() -> str:
    """Where code runs, as in E2B's image; else the directory of the server."""
    directory = Path("/home/user")
    return str(directory) if directory.is_dir() else os.getcwd()
