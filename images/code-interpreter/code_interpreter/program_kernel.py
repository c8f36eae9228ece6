"""A kernel whose code runs in another program, behind the interface of Jupyter."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import Any

from ipykernel.kernelbase import Kernel

#: Of one answer of the program: the text of a value or of an error.
MAX_ANSWER_BYTES = 16 << 20


class ProgramKernel(Kernel):
    """The program reads requests from a socket and writes answers to it, one on each line."""

    implementation = "code_interpreter"
    implementation_version = "1"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._answers: asyncio.StreamReader | None = None
        self._requests: asyncio.StreamWriter | None = None
        self.variables: dict[str, Any] = {}
        # An interrupt is sent to the process group: the program ends the execution.
        signal.signal(signal.SIGINT, lambda *_: None)

    def launch(self, theirs: socket.socket) -> None:
        """Starts the program with its end of the socket."""
        raise NotImplementedError

    async def send(self, request: bytes) -> None:
        if self._requests is None:
            ours, theirs = socket.socketpair()
            self.launch(theirs)
            theirs.close()
            self._answers, self._requests = await asyncio.open_connection(sock=ours, limit=MAX_ANSWER_BYTES)
        self._requests.write(request + b"\n")

    async def receive(self) -> bytes:
        assert self._answers is not None
        text = await self._answers.readline()
        if not text:
            # As for a Python kernel, the context starts again.
            os._exit(1)
        return text

    def put_output(self, name: str, text: str) -> None:
        self.send_response(self.iopub_socket, "stream", {"name": name, "text": text})

    def put_result(self, text: str) -> None:
        content = {"data": {"text/plain": text}, "metadata": {}, "execution_count": self.execution_count}
        self.send_response(self.iopub_socket, "execute_result", content)

    def put_error(self, name: str, value: str, trace: str) -> None:
        self.send_response(self.iopub_socket, "error", {"ename": name, "evalue": value, "traceback": [trace]})

    def pre_handler_hook(self) -> None:
        """The handler of SIGINT stays."""

    def post_handler_hook(self) -> None:
        """The handler of SIGINT stays."""

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        self.variables = (parent.get("metadata") or {}).get("ramet") or {}
        await super().execute_request(stream, ident, parent)
