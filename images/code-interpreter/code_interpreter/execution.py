"""The output of one execution, between the kernel that produces it and the client that reads it."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Callable

from .limits import MAX_UNREAD_BYTES
from .output import END, Line, error_line


class Execution:
    """The kernel is always read: it drops messages that nobody takes. So unread lines are kept here, up to a limit."""

    def __init__(self, on_overflow: Callable[[], None]) -> None:
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._on_overflow = on_overflow
        self._broken = False
        self.ended = False

    def put(self, line: Line) -> None:
        if self.ended:
            return
        text = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        if self._bytes + len(text) > MAX_UNREAD_BYTES:
            self.fail("OutputLimitExceeded", f"More than {MAX_UNREAD_BYTES >> 20} MiB of output was not read")
            self._on_overflow()
            return
        self._append(text)

    def fail(self, name: str, value: str) -> None:
        """Ends with an error of the server instead of one of the code."""
        if not self.ended:
            self._append(json.dumps(error_line(name, value)).encode() + b"\n")
            self.end()

    def break_off(self) -> None:
        """The client's connection ends without the end of the answer."""
        self._broken = self.ended = True
        self._changed.set()

    def end(self) -> None:
        if not self.ended:
            self.ended = True
            self._append(json.dumps(END).encode() + b"\n")

    async def next(self, timeout: float) -> bytes | None:
        """
        What there is to send; nothing at the end.
        @raise TimeoutError if nothing comes in time
        @raise BrokenPipeError if the execution was broken off
        """
        while not self._lines:
            if self._broken:
                raise BrokenPipeError
            if self.ended:
                return None
            self._changed.clear()
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        text = b"".join(self._lines)
        self._lines.clear()
        self._bytes = 0
        return text

    def _append(self, text: bytes) -> None:
        self._lines.append(text)
        self._bytes += len(text)
        self._changed.set()
