"""The variables of the sandbox, as its clients set them. A clone has its own."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient, HTTPRequest

from .limits import MAX_VARIABLES_BYTES, VARIABLES_SECONDS

_GUEST = "http://127.0.0.1:49983/envs"
#: Rewritten with each new identity of the sandbox.
_GENERATION = Path("/run/ramet/generation")


class SandboxVariables:
    def generation(self) -> str:
        """Changes when the sandbox gets a new identity, and with it other variables."""
        try:
            return _GENERATION.read_text()
        except OSError:
            return ""

    async def read(self, token: str | None) -> dict[str, str] | None:
        """None if the guest does not serve them to this caller."""
        headers = {} if token is None else {"X-Access-Token": token}
        request = HTTPRequest(_GUEST, headers=headers, request_timeout=VARIABLES_SECONDS)
        client = AsyncHTTPClient(force_instance=True, max_body_size=MAX_VARIABLES_BYTES)
        try:
            answer = await client.fetch(request)
            found = json.loads(answer.body)
            return {str(name): str(value) for name, value in found.items()}
        except Exception as error:  # Without them the code still runs.
            logging.warning("reading the sandbox's variables failed: %s", error)
            return None
        finally:
            client.close()
