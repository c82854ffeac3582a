"""Tasks that run in the background for as long as what began them."""

import asyncio


async def ended(task: "asyncio.Task[None] | None") -> None:
    """Return when the task is over, whatever it was at; None was never begun."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
