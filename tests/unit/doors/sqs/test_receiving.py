"""What a long poll of SQS received is answered or given back, whenever its log-in ends."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.doors.sqs.receiving import receive_message
from goqueue.doors.sqs.requests import ReceiveMessage

pytestmark = pytest.mark.anyio


class Queues:
    """The first look finds nothing, the second one something."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self.given_back: list[str] = []

    async def receive(self, _caller: Any, _group: str, _queue: str, asked: Any) -> list[Any]:
        if not asked.wait_ms:
            return []
        await self.there.wait()
        return ["message"]

    def give_back(self, _group: str, found: list[str]) -> None:
        self.given_back += found


@pytest.mark.parametrize("turns", range(6))
async def test_a_message_is_not_lost_where_the_log_in_ends_after_it_was_found(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.doors.sqs.receiving._message", lambda *given: given[2])
    queues: Any = Queues()
    queue = SimpleNamespace(name="jobs", is_fifo=False, wait_seconds=0)
    service: Any = SimpleNamespace(
        queues=queues, sqs_queues=SimpleNamespace(for_receiving=lambda *_: queue)
    )
    call: Any = SimpleNamespace(
        caller=None, gone=lambda: asyncio.Event().wait(), closing=asyncio.Event()
    )
    asked = ReceiveMessage(queue_url="jobs", wait_time_seconds=20)
    answering = asyncio.create_task(receive_message(service, call, asked))
    for _ in range(5):
        await asyncio.sleep(0)
    queues.there.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    answering.cancel()
    [answer] = await asyncio.gather(answering, return_exceptions=True)
    await asyncio.sleep(0)
    answered: list[Any] = [] if isinstance(answer, BaseException) else answer.messages
    assert [*answered, *queues.given_back] == ["message"] or not turns
