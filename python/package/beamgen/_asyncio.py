"""Blocking calls for event loops."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Awaits a blocking call on a thread of its own.

    The threads of ``asyncio.to_thread`` are few, and each search would hold one of them.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def done(value: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = call()
        except BaseException as raised:
            error = raised
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(done, value, error)

    threading.Thread(target=run, name="beamgen-await", daemon=True).start()
    return await future
