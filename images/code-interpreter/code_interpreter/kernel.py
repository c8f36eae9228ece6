"""The Python kernel: ipykernel's, with variables of one execution, and with data of tables and charts in results."""

from __future__ import annotations

import functools
import logging
import multiprocessing.util
import os
import random
import resource
import sys
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from traitlets.config import Config

from .display import add_formatters
from .pillow import PillowFinder


class InterpreterKernel(IPythonKernel):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        add_formatters(self.shell.display_formatter)
        sys.meta_path.insert(0, PillowFinder())  # type: ignore[arg-type]

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        variables = (parent.get("metadata") or {}).get("ramet") or {}
        _update(variables.get("shared", {}))
        if variables.get("reseed"):
            _reseed()
        with _environment(variables.get("env", {})):
            await super().execute_request(stream, ident, parent)


def _reseed() -> None:
    """Generators that a program has created keep their state: nothing knows them."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.seed()
    if (ssl := sys.modules.get("ssl")) is not None:
        # It also seeds OpenSSL's generators from the kernel of the system.
        ssl.RAND_add(os.urandom(32), 32.0)
    if (tempfile := sys.modules.get("tempfile")) is not None:
        tempfile._name_sequence = None


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Variables for one execution. What it sets itself stays."""
    before = {name: os.environ.get(name) for name in variables}
    _update(variables)
    try:
        yield
    finally:
        _update({name: before[name] for name in variables if os.environ.get(name) == variables[name]})


def _update(variables: dict[str, Any]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


#: Before Python starts a process, which inherits the limit, and before it maps a file, which needs no memory (PEP 578).
_UNBOUNDED = frozenset(
    ["subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "mmap.__new__"]
)


#: The same where Python reports nothing: threads reserve a large stack of which they use little, and spawned processes inherit.
_UNREPORTED = [
    (threading, "_start_new_thread"),
    (threading, "_start_joinable_thread"),
    (multiprocessing.util, "spawnv_passfds"),
]


def _lift_address_limit() -> None:
    """The server limits the addresses of this process again (memory.py)."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _on_event(event: str, _: Any) -> None:
    if event in _UNBOUNDED:
        _lift_address_limit()


def _lifting(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        _lift_address_limit()
        return call(*args, **kwargs)

    return lifted


def main() -> None:
    # Python programs that code starts do not seed their random numbers again.
    os.environ["RAMET_RESEEDS"] = "node"
    sys.addaudithook(_on_event)
    for module, name in _UNREPORTED:
        # Versions of Python have one or the other.
        if (call := getattr(module, name, None)) is not None:
            setattr(module, name, _lifting(call))
    config = Config()
    # Otherwise it prints how to connect to it.
    config.IPKernelApp.log_level = logging.CRITICAL
    config.InteractiveShell.colors = "nocolor"
    # The history would be a database file with a thread.
    config.HistoryManager.enabled = False
    config.PlainTextFormatter.max_seq_length = 0
    IPKernelApp.launch_instance(kernel_class=InterpreterKernel, config=config)


if __name__ == "__main__":
    main()
