"""A context: code that runs in it shares variables, imports and a working directory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from typing import AsyncIterator

from .execution import Execution
from .kernel_process import KernelProcess, Message
from .languages import Language
from .limits import KEEPALIVE_SECONDS, MAX_EXECUTIONS
from .memory import MemoryWatch
from .output import Line, is_idle, lines_of
from .requests import RequestRefused
from .variables import SandboxVariables


class Context:
    def __init__(self, language: Language, cwd: str, variables: SandboxVariables, memory: MemoryWatch) -> None:
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self._variables = variables
        self._memory = memory
        self._blamed: str | None = None
        self._generation: str | None = None
        self._seeded: str | None = variables.generation()
        self._names: set[str] = set()
        self._kernel: KernelProcess | None = None
        self._running: dict[str, Execution] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._removed = False

    def describe(self) -> Line:
        return {"id": self.id, "language": self.language.name, "cwd": self.cwd}

    @property
    def is_running(self) -> bool:
        return len(self._running) > 0

    @property
    def kernel_pid(self) -> int | None:
        return None if self._kernel is None else self._kernel.pid

    @property
    def bounds_addresses(self) -> bool:
        return self.language.kernel == "python3"

    def blame(self, reason: str) -> None:
        self._blamed = reason

    async def start(self) -> None:
        kernel = KernelProcess(self.language.kernel, self.cwd, self._on_output)
        try:
            await kernel.start(lambda: self._on_exit(kernel))
            if self._removed:
                raise _removed(self.id)
        except BaseException:
            await kernel.stop()
            raise
        self._kernel, self._generation, self._names = kernel, None, set()

    async def stop(self, broken: bool = False) -> None:
        kernel, self._kernel = self._kernel, None
        self._end_all(broken)
        if kernel is not None:
            await kernel.stop()

    async def restart(self) -> None:
        await self.stop()
        async with self._turn:
            await self._started()

    async def remove(self) -> None:
        self._removed = True
        await self.stop()

    async def execute(self, code: str, env: dict[str, str], token: str | None) -> AsyncIterator[bytes]:
        """Runs the code after what came before. If the caller stops reading, the code is interrupted."""
        if self._waiting >= MAX_EXECUTIONS:
            raise RequestRefused(429, f"{MAX_EXECUTIONS} executions are waiting for this context")
        self._waiting += 1
        try:
            async for text in self._execute(code, env, token):
                yield text
        finally:
            self._waiting -= 1

    async def _execute(self, code: str, env: dict[str, str], token: str | None) -> AsyncIterator[bytes]:
        while True:
            try:
                await asyncio.wait_for(self._turn.acquire(), KEEPALIVE_SECONDS)
                break
            except TimeoutError:
                yield _keepalive
        try:
            await self._started()
            execution = await self._send(code, env, token)
            try:
                with self._memory.watching():
                    async for text in _lines(execution):
                        yield text
            except (asyncio.CancelledError, GeneratorExit):
                if not execution.ended:
                    self._interrupt()
                raise
            finally:
                execution.ended = True
        finally:
            self._turn.release()

    async def _started(self) -> None:
        """A kernel that ended is started again, without its variables."""
        if self._removed:
            raise _removed(self.id)
        if self._kernel is None:
            await self.start()

    async def _send(self, code: str, env: dict[str, str], token: str | None) -> Execution:
        shared = await self._changed_variables(token)
        kernel = self._kernel
        if kernel is None:
            raise RequestRefused(409, "the context was restarted")
        execution = Execution(self._interrupt)
        self._blamed = None
        reseed = self._is_clone()
        before, after = self.language.around(shared, env, reseed)
        if before:
            kernel.execute(before, silent=True, metadata={})
        metadata = {"ramet": {"shared": shared, "env": env, "reseed": reseed}}
        self._running[kernel.execute(code, silent=False, metadata=metadata)] = execution
        if after:
            kernel.execute(after, silent=True, metadata={})
        return execution

    async def _changed_variables(self, token: str | None) -> dict[str, str | None]:
        """What the kernel's environment lacks: all of the sandbox's variables, once for each identity."""
        generation = self._variables.generation()
        if generation == self._generation:
            return {}
        found = await self._variables.read(token)
        if found is None:
            return {}
        gone = self._names - found.keys()
        self._generation, self._names = generation, set(found)
        return {**found, **{name: None for name in gone}}

    def _is_clone(self) -> bool:
        """Whether this is the kernel's first execution in a clone, which shares the state of random numbers with its siblings."""
        before, self._seeded = self._seeded, self._variables.generation()
        return before is not None and before != self._seeded

    def _on_output(self, message: Message) -> None:
        id = message["parent_header"].get("msg_id", "")
        execution = self._running.get(id)
        if execution is None:
            return
        for line in lines_of(message):
            execution.put(line)
        if is_idle(message):
            execution.end()
            del self._running[id]

    def _on_exit(self, kernel: KernelProcess) -> None:
        if kernel is not self._kernel:
            return
        logging.warning("the kernel of context %s ended; the next execution starts another", self.id)
        self._kernel = None
        self._end_all()
        self._stopping = asyncio.create_task(kernel.stop())

    def _end_all(self, broken: bool = False) -> None:
        for execution in self._running.values():
            if broken:
                execution.break_off()
            elif self._blamed is not None:
                execution.fail("OutOfMemory", self._blamed)
            else:
                execution.fail("ContextRestarting", "Context was restarted")
        self._running.clear()

    def _interrupt(self) -> None:
        if self._kernel is not None:
            self._interrupting = asyncio.create_task(_quietly(self._kernel))


def _removed(id: str) -> RequestRefused:
    return RequestRefused(404, f"Context {id} not found")


async def _quietly(kernel: KernelProcess) -> None:
    with contextlib.suppress(Exception):
        await kernel.interrupt()


async def _lines(execution: Execution) -> AsyncIterator[bytes]:
    while True:
        try:
            text = await execution.next(KEEPALIVE_SECONDS)
        except TimeoutError:
            text = _keepalive
        if text is None:
            return
        yield text


_keepalive = b'{"type": "keepalive"}\n'
