"""Starts the server: `python -m code_interpreter`."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import signal

from tornado.httpserver import HTTPServer

from .contexts import Contexts
from .http_api import http_api
from .kernel_process import end_orphans
from .limits import MAX_BODY_BYTES, MAX_HEADER_BYTES, PORT


async def serve() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    own_home_directory()
    end_orphans()
    contexts = Contexts()
    # A port that accepts connections means that code can run.
    await contexts.default("python")
    contexts.declare_default("javascript")
    server = HTTPServer(
        http_api(contexts),
        max_buffer_size=MAX_BODY_BYTES + MAX_HEADER_BYTES,
        max_body_size=MAX_BODY_BYTES,
        max_header_size=MAX_HEADER_BYTES,
        body_timeout=60,
    )
    server.listen(PORT)
    stopped = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    await stopped.wait()
    server.stop()
    await contexts.close()


def own_home_directory() -> None:
    """On one machine, an ordinary user's images belong to root. The home of `user` is theirs."""
    try:
        account = pwd.getpwnam("user")
        if os.stat(account.pw_dir).st_uid != account.pw_uid:
            os.chown(account.pw_dir, account.pw_uid, account.pw_gid)
    except (KeyError, OSError) as error:
        logging.warning("the home directory of user was left as it is: %s", error)


if __name__ == "__main__":
    asyncio.run(serve())
