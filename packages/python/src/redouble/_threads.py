"""Waits for the server without holding up an event loop."""

from __future__ import annotations

import asyncio
import functools
import sys
from typing import Any, Callable, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call a function in a thread of the running event loop: asyncio's, or trio's."""
    call = functools.partial(function, *arguments, **options)
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return await trio.to_thread.run_sync(call)  # type: ignore[no-any-return]
    return await asyncio.get_running_loop().run_in_executor(None, call)
