"""Ends the kernel that uses the memory up, before the limit ends the whole sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import time
from collections import defaultdict
from pathlib import Path
from typing import Callable, Iterable, Iterator, Protocol

from .limits import (
    LIFTED_SECONDS,
    LONGEST_MEMORY_PAUSE_SECONDS,
    LONGEST_RELEASE_SECONDS,
    MAX_FILL_BYTES_PER_SECOND,
    MEMORY_RESERVE,
    SHORTEST_MEMORY_PAUSE_SECONDS,
)
from .variables import SandboxVariables

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class KernelOwner(Protocol):
    """A context."""

    @property
    def is_running(self) -> bool: ...

    @property
    def kernel_pid(self) -> int | None: ...

    @property
    def bounds_addresses(self) -> bool:
        """Whether the kernel reserves no more addresses than it soon uses, and lifts the limit for other processes."""

    def blame(self, reason: str) -> None:
        """Says why the kernel is about to end."""


class MemoryWatch:
    """
    Looks at the memory of the sandbox while code runs, the more often the less is free, and lets a Python kernel reserve as many new
    addresses as memory is free: what it allocates faster than this process looks is a MemoryError in its code. gVisor enforces
    RLIMIT_AS, and not RLIMIT_DATA. Other kernels are only watched: Node.js and Java reserve gigabytes that they never use.
    """

    def __init__(self, variables: SandboxVariables, owners: Callable[[], Iterable[KernelOwner]]) -> None:
        self._variables = variables
        self._owners = owners
        self._running = 0
        self._task: asyncio.Task[None] | None = None
        self._bounds = AddressBounds()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self._running += 1
        # Now, because the code may already run, and its kernel may be new.
        self._bound_addresses(self._reserved(), *self._usage())
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._running -= 1

    async def _watch(self) -> None:
        while self._running > 0:
            reserved = self._reserved()
            limit, used = self._usage()
            spare = limit - used - int(limit * MEMORY_RESERVE)
            if spare < 0 and (victim := self._end_largest(limit, used)) is not None:
                await _released(victim)
            self._bound_addresses(reserved, limit, used)
            pause = max(spare / MAX_FILL_BYTES_PER_SECOND, SHORTEST_MEMORY_PAUSE_SECONDS)
            await asyncio.sleep(min(pause, LONGEST_MEMORY_PAUSE_SECONDS))

    def _reserved(self) -> dict[int, int]:
        """The addresses of kernels that are limited. Read before what is used: what grows in between is then counted twice, and not missed."""
        pids = [owner.kernel_pid for owner in self._owners() if owner.bounds_addresses]
        return {pid: size for pid in pids if pid is not None and (size := _reserved_bytes(pid)) is not None}

    def _bound_addresses(self, reserved: dict[int, int], limit: int, used: int) -> None:
        """Most of the reserve is left for gVisor. The rest lets a kernel report that its memory is used up."""
        reserve = int(limit * MEMORY_RESERVE)
        self._bounds.allow(reserved, max(limit - used - reserve, 0) + reserve // 4)

    def _usage(self) -> tuple[int, int]:
        """The limit of the sandbox, and what all of its programs and files in memory use."""
        found = {}
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, number = line.split()[:2]
            found[name] = int(number) << 10
        total = found["MemTotal:"]
        return min(self._variables.memory_bytes or total, total), total - found["MemAvailable:"]

    def _end_largest(self, limit: int, used: int) -> int | None:
        """Ends the largest process of a kernel, first of kernels that run code. @return its id"""
        owners = {owner.kernel_pid: owner for owner in self._owners() if owner.kernel_pid is not None}
        sizes = _sizes_by_session()
        # The end of a small one would not help.
        large = {pid: owner for pid, owner in owners.items() if sum(sizes[pid].values()) > limit * MEMORY_RESERVE}
        if not large:
            return None
        pid = max(large, key=lambda each: (large[each].is_running, sum(sizes[each].values())))
        victim, size = max(sizes[pid].items(), key=lambda item: item[1])
        reason = (
            f"The process {victim} of this context was ended: the sandbox used {used >> 20} MiB of its limit of "
            f"{limit >> 20} MiB, and the process {size >> 20} MiB"
        )
        logging.warning("out of memory: %s", reason)
        large[pid].blame(reason)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        return victim


class AddressBounds:
    """Limits how many addresses processes can reserve (RLIMIT_AS). They lift their limits to start other processes."""

    def __init__(self) -> None:
        #: The last limit of each process.
        self._limits: dict[int, int] = {}
        self._lifted: dict[int, float] = {}

    def allow(self, reserved: dict[int, int], spare: int) -> None:
        """Allows each process `spare` bytes more than it has reserved."""
        self._limits = {pid: limit for pid, limit in self._limits.items() if pid in reserved}
        self._lifted = {pid: since for pid, since in self._lifted.items() if pid in reserved}
        for pid, size in reserved.items():
            # The process may have ended.
            with contextlib.suppress(OSError):
                self._allow(pid, size + spare)

    def _allow(self, pid: int, limit: int) -> None:
        unlimited = resource.RLIM_INFINITY
        soft, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        last = self._limits.get(pid)
        if soft == unlimited and last is not None:
            since = self._lifted.setdefault(pid, time.monotonic())
            if time.monotonic() - since < LIFTED_SECONDS:
                return
        elif soft not in (unlimited, last):
            return  # The code has set a limit itself.
        self._lifted.pop(pid, None)
        before, _ = resource.prlimit(pid, resource.RLIMIT_AS, (limit, hard))
        self._limits[pid] = limit
        if before != soft:
            resource.prlimit(pid, resource.RLIMIT_AS, (before, hard))


async def _released(process: int) -> None:
    """Waits until the memory of a process that was killed is free: otherwise another one would be ended for it."""
    deadline = time.monotonic() + LONGEST_RELEASE_SECONDS
    with contextlib.suppress(OSError):
        while _resident(process) > 0 and time.monotonic() < deadline:
            await asyncio.sleep(0.02)


def _resident(process: int) -> int:
    return _pages(process, 1)


def _reserved_bytes(process: int) -> int | None:
    """None if the process has ended."""
    try:
        return _pages(process, 0)
    except OSError:
        return None


def _pages(process: int, field: int) -> int:
    """The bytes that a process has reserved (field 0) or uses (field 1)."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[field]) * _PAGE_BYTES


def _sizes_by_session() -> dict[int, dict[int, int]]:
    """The resident bytes of each process, by the process that leads its session. A kernel leads its own."""
    sizes: dict[int, dict[int, int]] = defaultdict(dict)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of the program, in parentheses, can have spaces.
            session = int((process / "stat").read_text().rsplit(")", 1)[1].split()[3])
            sizes[session][int(process.name)] = _resident(int(process.name))
    return sizes
