"""The kernel for Java: a process that runs JavaKernel.java. The variables of executions are system properties, as in E2B's image."""

from __future__ import annotations

import socket
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from ipykernel.kernelapp import IPKernelApp

from .program_kernel import ProgramKernel


class JavaKernel(ProgramKernel):
    banner = "Java"
    language_info = {"name": "java", "mimetype": "text/x-java-source", "file_extension": ".jshell"}

    def launch(self, theirs: socket.socket) -> None:
        classes = Path(sys.prefix) / "lib" / "java"
        subprocess.Popen(["java", "-XX:+UseSerialGC", "-cp", str(classes), "JavaKernel"], stdin=theirs, stdout=theirs)

    async def do_execute(self, code: str, silent: bool, *_: Any, **__: Any) -> dict[str, Any]:
        await self.send(b" ".join([b64encode(code.encode()), *self._assignments()]))
        status = "ok"
        while True:
            kind, *encoded = (await self.receive()).decode().split()
            texts = [b64decode(each).decode("utf-8", "replace") for each in encoded]
            match kind:
                case "done":
                    return {"status": status, "execution_count": self.execution_count}
                case "result":
                    self.put_result(*texts)
                case "error":
                    self.put_error(*texts)
                    status = "error"
                case _:
                    self.put_output(kind, *texts)

    def _assignments(self) -> list[bytes]:
        shared, own = self.variables.get("shared", {}), self.variables.get("env", {})
        gone = [name.encode() for name, value in shared.items() if value is None]
        return gone + [
            name.encode() + sign + b64encode(value.encode())
            for sign, values in ((b":", shared), (b"=", own))
            for name, value in values.items()
            if value is not None
        ]


def main() -> None:
    IPKernelApp.launch_instance(kernel_class=JavaKernel, log_level=50)


if __name__ == "__main__":
    main()
