"""Starts the server that forks child processes; this module imports little, so that the server starts at once."""

from __future__ import annotations

import sys
from multiprocessing import forkserver, get_context
from multiprocessing.context import BaseContext


def start_process_server() -> BaseContext:
    """The context of child processes; they do not inherit the threads of this process.

    On Linux they are forks of a server that imports only large libraries that can be forked, which takes two seconds of
    CPU time. A fork of a process that has used Polars' threads hangs.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["dagster", "scipy.sparse", "sqlalchemy", "torch"])
    forkserver.ensure_running()
    return context
