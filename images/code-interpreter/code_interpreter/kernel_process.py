"""One kernel: a process and the connections to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable

import zmq
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from .limits import KERNEL_START_SECONDS

Message = dict[str, Any]


class KernelProcess:
    """
    The connections are Unix sockets, because those of loopback TCP end when a sandbox is restored. Nothing polls: a
    thread waits for the end of the process.
    """

    def __init__(self, kernel_name: str, cwd: str, on_output: Callable[[Message], None]) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="kernel-", dir=_runtime_directory()))
        self._manager = AsyncKernelManager(
            kernel_name=kernel_name,
            transport="ipc",
            ip=str(self._directory / "socket"),
            connection_file=str(self._directory / "connection.json"),
        )
        self._cwd = cwd
        self._on_output = on_output
        self._client: AsyncKernelClient | None = None
        self._readers: list[asyncio.Task[None]] = []

    async def start(self, on_exit: Callable[[], None]) -> None:
        """@raise RuntimeError if the kernel does not answer"""
        # Otherwise the kernel would look every second whether this process still exists.
        await self._manager.start_kernel(cwd=self._cwd, independent=True)
        self._watch(on_exit)
        client = self._manager.client()
        client.start_channels(stdin=False, hb=False)
        self._client = client
        await client.wait_for_ready(timeout=KERNEL_START_SECONDS)
        self._readers = [
            asyncio.create_task(self._read(client.iopub_channel, self._on_output)),
            asyncio.create_task(self._read(client.shell_channel, _ignore)),
        ]

    @property
    def pid(self) -> int | None:
        process = getattr(self._manager.provisioner, "process", None)
        return None if process is None else int(process.pid)

    def execute(self, code: str, *, silent: bool, metadata: Message) -> str:
        """Sends code to the kernel, which runs it after what it got before. @return the message's id"""
        assert self._client is not None
        content = {
            "code": code,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": {},
            "allow_stdin": False,
            # Executions wait here and not in the kernel, so an error of one never drops another.
            "stop_on_error": False,
        }
        message = self._client.session.msg("execute_request", content, metadata=metadata)
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    async def interrupt(self) -> None:
        await self._manager.interrupt_kernel()

    async def stop(self) -> None:
        for reader in self._readers:
            reader.cancel()
        if self._client is not None:
            self._client.stop_channels()
        if self._manager.has_kernel:
            await self._manager.shutdown_kernel(now=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _watch(self, on_exit: Callable[[], None]) -> None:
        process = self._manager.provisioner.process
        loop = asyncio.get_running_loop()

        def wait() -> None:
            process.wait()
            loop.call_soon_threadsafe(on_exit)

        threading.Thread(target=wait, name="kernel-exit", daemon=True).start()

    @staticmethod
    async def _read(channel: Any, handle: Callable[[Message], None]) -> None:
        while True:
            # Code in the kernel can send anything: one odd message does not end the reading of all others.
            try:
                handle(await channel.get_msg())
            except zmq.ZMQError:
                return  # The socket was closed.
            except Exception:
                logging.exception("a message of the kernel was not understood")


def end_orphans() -> None:
    """Ends the kernels of a server that was killed. Their command lines name a file in the directory."""
    directory = _runtime_directory()
    if directory is None:
        return
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{directory}/kernel-".encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
    for kernel in Path(directory).glob("kernel-*"):
        shutil.rmtree(kernel, ignore_errors=True)


def _ignore(_: Message) -> None:
    """Replies repeat what the output channel says."""


def _runtime_directory() -> str | None:
    try:
        directory = Path("/run/code-interpreter")
        directory.mkdir(mode=0o700, exist_ok=True)
        return str(directory)
    except OSError:
        return None
