"""
The command line of AgentTier. That of 0.8.1 does not start: two of its options have the same name, which argparse rejects. Here the
second one replaces the first, and everything else is unmodified.
"""

import argparse
import functools
import sys

argparse.ArgumentParser.__init__ = functools.partialmethod(
    argparse.ArgumentParser.__init__, conflict_handler="resolve"
)

from agenttier.cli import main  # noqa: E402

sys.exit(main())
