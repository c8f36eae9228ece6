"""The kernel for JavaScript and TypeScript: a Node.js process that runs node_kernel.mjs, behind the interface of Jupyter."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

#: Of one answer of the process: the text of a value or of an error.
MAX_ANSWER_BYTES = 16 << 20


class NodeKernel(Kernel):
    implementation = "code_interpreter"
    implementation_version = "1"
    banner = "Node.js"
    language_info = {"name": "javascript", "mimetype": "text/javascript", "file_extension": ".js"}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._answers: asyncio.StreamReader | None = None
        self._requests: asyncio.StreamWriter | None = None
        self._outputs: dict[str, int] = {}
        self._variables: dict[str, Any] = {}
        # An interrupt is sent to the process group: the Node.js process ends the execution.
        signal.signal(signal.SIGINT, lambda *_: None)

    def pre_handler_hook(self) -> None:
        """The handler of SIGINT stays."""

    def post_handler_hook(self) -> None:
        """The handler of SIGINT stays."""

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        self._variables = (parent.get("metadata") or {}).get("ramet") or {}
        await super().execute_request(stream, ident, parent)

    async def do_execute(self, code: str, silent: bool, *_: Any, **__: Any) -> dict[str, Any]:
        if self._requests is None:
            await self._start()
        assert self._requests is not None and self._answers is not None
        self._requests.write(json.dumps({"code": code, **self._variables}).encode() + b"\n")
        text = await self._answers.readline()
        if not text:
            # As for a Python kernel, the context starts again.
            os._exit(1)
        answer = json.loads(text)
        for name, output in self._outputs.items():
            self._forward(name, output)
        if not silent:
            self._report(answer)
        return {"status": "ok" if answer["ok"] else "error", "execution_count": self.execution_count, **answer}

    def _report(self, answer: dict[str, Any]) -> None:
        if not answer["ok"]:
            error = {"ename": answer["name"], "evalue": answer["value"], "traceback": [answer["stack"]]}
            self.send_response(self.iopub_socket, "error", error)
        elif answer.get("text") is not None:
            content = {"data": {"text/plain": answer["text"]}, "metadata": {}, "execution_count": self.execution_count}
            self.send_response(self.iopub_socket, "execute_result", content)

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        outputs = {name: os.pipe() for name in ("stdout", "stderr")}
        program = Path(__file__).with_name("node_kernel.mjs")
        subprocess.Popen(
            ["node", "--no-warnings", str(program), str(theirs.fileno()), os.environ["NODE_KERNEL_LANGUAGE"]],
            stdin=subprocess.DEVNULL,
            stdout=outputs["stdout"][1],
            stderr=outputs["stderr"][1],
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        for name, (output, end) in outputs.items():
            os.close(end)
            os.set_blocking(output, False)
            self._outputs[name] = output
            asyncio.get_running_loop().add_reader(output, self._forward, name, output)
        self._answers, self._requests = await asyncio.open_connection(sock=ours, limit=MAX_ANSWER_BYTES)

    def _forward(self, name: str, output: int) -> None:
        """Node.js writes to pipes synchronously, so all output of an execution is here before its answer."""
        read = b""
        try:
            while len(read) < MAX_ANSWER_BYTES:
                part = os.read(output, 1 << 16)
                read += part
                if not part:
                    asyncio.get_running_loop().remove_reader(output)
                    break
        except BlockingIOError:
            pass
        if read:
            self.send_response(self.iopub_socket, "stream", {"name": name, "text": read.decode("utf-8", "replace")})


def main() -> None:
    IPKernelApp.launch_instance(kernel_class=NodeKernel, log_level=50)


if __name__ == "__main__":
    main()
