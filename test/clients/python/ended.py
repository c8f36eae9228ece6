"""Runs programs of the asynchronous SDK."""

import asyncio
import os
import sys


def run(program):
    """Like `asyncio.run`, but ends the process at once: the threads of the SDK's HTTP library (pyqwest 0.12.0) abort about one of sixty exits of the interpreter, whatever server they talked to."""
    asyncio.run(program)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
