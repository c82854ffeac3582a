"""A request is answered by the task that took it in: on a busy broker every other one, and every
thread, is a wait for the next turn of the event loop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.anyio


@contextmanager
def tasks_of_the_broker() -> Iterator[list[str]]:
    """The names of what runs in tasks of its own, and of threads that began."""
    loop = asyncio.get_running_loop()
    made: list[str] = []

    def note(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(getattr(work, "__qualname__", type(work).__qualname__))
        return asyncio.Task(work, loop=loop, **options)

    threads = set(threading.enumerate())
    loop.set_task_factory(note)
    try:
        yield made
    finally:
        loop.set_task_factory(None)
        made += [thread.name for thread in set(threading.enumerate()) - threads]


async def test_a_request_is_answered_in_its_own_task(
    client: httpx.AsyncClient, orders: str
) -> None:
    await client.post(f"/topics/{orders}/messages", json={"value": "a"})
    wanted = {"topic": orders, "start": "earliest"}
    await client.post("/groups/g/receive", json=wanted)
    await client.post(f"/topics/{orders}/messages", json={"value": "b"})

    with tasks_of_the_broker() as made:
        received = await client.post("/groups/g/receive", json=wanted)
        (message,) = received.json()["messages"]
        settled = await client.post(
            "/messages/ack", json={"group": "g", "receipts": [message["receipt"]]}
        )

    assert settled.json()["results"][0]["error"] is None
    request = "RequestResponseCycle.run_asgi"
    # What is taken for a reader that may go meanwhile is taken to the end, and given back.
    assert made == [request, "_Begun", request]
