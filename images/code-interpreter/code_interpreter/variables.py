"""The variables of the sandbox, as its clients set them. A clone has its own."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest

from .limits import MAX_VARIABLES_BYTES, VARIABLES_SECONDS

_GUEST = "http://127.0.0.1:49983"
#: Rewritten with each new identity of the sandbox.
_GENERATION = Path("/run/ramet/generation")


class SandboxVariables:
    def __init__(self) -> None:
        #: The limit of the sandbox's memory, when it is known.
        self.memory_bytes: int | None = None

    def generation(self) -> str:
        """Changes when the sandbox gets a new identity, and with it other variables."""
        try:
            return _GENERATION.read_text()
        except OSError:
            return ""

    async def read(self, token: str | None) -> dict[str, str] | None:
        """Reads the limit of memory too. None if the guest does not serve them to this caller."""
        headers = {} if token is None else {"X-Access-Token": token}
        client = AsyncHTTPClient(force_instance=True, max_body_size=MAX_VARIABLES_BYTES)

        async def fetch(path: str) -> dict[str, Any]:
            request = HTTPRequest(_GUEST + path, headers=headers, request_timeout=VARIABLES_SECONDS)
            found: dict[str, Any] = json.loads((await client.fetch(request)).body)
            return found

        try:
            metrics, found = await asyncio.gather(fetch("/metrics"), fetch("/envs"))
            self.memory_bytes = int(metrics["mem_total"])
            return {str(name): str(value) for name, value in found.items()}
        except Exception as error:  # Without them the code still runs.
            logging.warning("reading the sandbox's variables failed: %s", error)
            return None
        finally:
            client.close()
