"""The routes of the server."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Awaitable

from tornado.iostream import StreamClosedError
from tornado.web import Application, RequestHandler

from .contexts import Contexts
from .requests import RequestRefused, parse_context, parse_execute


def http_api(contexts: Contexts) -> Application:
    services = {"contexts": contexts}
    return Application(
        [
            (r"/health", Health),
            (r"/execute", Execute, services),
            (r"/contexts", AllContexts, services),
            (r"/contexts/([^/]+)", OneContext, services),
            (r"/contexts/([^/]+)/restart", Restart, services),
        ],
        # Code is not logged, nor what it writes.
        log_function=lambda handler: None,
        default_handler_class=Unknown,
    )


class Handler(RequestHandler):
    """Answers as E2B's server: JSON, and errors as plain text."""

    contexts: Contexts

    def initialize(self, contexts: Contexts | None = None) -> None:
        if contexts is not None:
            self.contexts = contexts

    def set_default_headers(self) -> None:
        self.set_header("Access-Control-Allow-Origin", "*")
        self.set_header("Access-Control-Allow-Methods", "*")
        self.set_header("Access-Control-Allow-Headers", "*")

    def options(self, *_: str) -> None:
        self.set_status(204)

    def answer(self, value: Any) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(value))

    def write_error(self, status_code: int, **about: Any) -> None:
        error = about.get("exc_info", (None, None, None))[1]
        if isinstance(error, RequestRefused):
            self.set_status(error.status)
        elif status_code >= 500:
            logging.error("%s failed: %r", self.request.path, error)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(str(error) if error is not None else self._reason)

    def log_exception(self, *_: Any) -> None:
        """write_error does it."""


class Unknown(Handler):
    def prepare(self) -> None:
        raise RequestRefused(404, f"{self.request.method} {self.request.path[:100]} is not a route")


class Health(Handler):
    def get(self) -> None:
        self.answer("OK")


class Execute(Handler):
    _running: asyncio.Task[None] | None = None

    async def post(self) -> None:
        request = parse_execute(self.request.body)
        self.set_header("Content-Type", "application/x-ndjson")
        self.set_header("X-Accel-Buffering", "no")
        self._running = asyncio.current_task()
        try:
            context = await self.contexts.of(request)
            lines = context.execute(request.code, request.env_vars, self.request.headers.get("X-Access-Token"))
            try:
                async for text in lines:
                    self.write(text)
                    await self.flush()
            finally:
                await lines.aclose()
        except (asyncio.CancelledError, StreamClosedError):
            return  # The client has gone.
        except BrokenPipeError:
            self.detach().close()
        finally:
            self._running = None

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._running is not None:
            self._running.cancel()


class AllContexts(Handler):
    def get(self) -> None:
        self.answer([context.describe() for context in self.contexts.list()])

    async def post(self) -> None:
        context = await self.contexts.create(parse_context(self.request.body))
        self.answer(context.describe())


class OneContext(Handler):
    async def delete(self, id: str) -> None:
        await self.contexts.remove(id)
        self.answer(None)


class Restart(Handler):
    async def post(self, id: str) -> None:
        await self.contexts.get(id).restart()
        self.answer(None)
