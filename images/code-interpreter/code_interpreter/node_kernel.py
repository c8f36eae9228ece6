"""The kernel for JavaScript and TypeScript: a Node.js process that runs node_kernel.mjs."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

from ipykernel.kernelapp import IPKernelApp

from .program_kernel import MAX_ANSWER_BYTES, ProgramKernel


class NodeKernel(ProgramKernel):
    banner = "Node.js"
    language_info = {"name": "javascript", "mimetype": "text/javascript", "file_extension": ".js"}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._outputs: dict[str, int] = {}

    async def do_execute(self, code: str, silent: bool, *_: Any, **__: Any) -> dict[str, Any]:
        await self.send(json.dumps({"code": code, **self.variables}).encode())
        answer = json.loads(await self.receive())
        for name, output in self._outputs.items():
            self._forward(name, output)
        if not answer["ok"]:
            self.put_error(answer["name"], answer["value"], answer["stack"])
        elif answer.get("text") is not None:
            self.put_result(answer["text"])
        return {"status": "ok" if answer["ok"] else "error", "execution_count": self.execution_count, **answer}

    def launch(self, theirs: socket.socket) -> None:
        outputs = {name: os.pipe() for name in ("stdout", "stderr")}
        program = Path(__file__).with_name("node_kernel.mjs")
        subprocess.Popen(
            ["node", "--no-warnings", str(program), str(theirs.fileno()), os.environ["NODE_KERNEL_LANGUAGE"]],
            stdin=subprocess.DEVNULL,
            stdout=outputs["stdout"][1],
            stderr=outputs["stderr"][1],
            pass_fds=[theirs.fileno()],
        )
        for name, (output, end) in outputs.items():
            os.close(end)
            os.set_blocking(output, False)
            self._outputs[name] = output
            asyncio.get_running_loop().add_reader(output, self._forward, name, output)

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
            self.put_output(name, read.decode("utf-8", "replace"))


def main() -> None:
    IPKernelApp.launch_instance(kernel_class=NodeKernel, log_level=50)


if __name__ == "__main__":
    main()
