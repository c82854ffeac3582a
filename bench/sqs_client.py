"""A small client for the SQS JSON protocol, fast enough not to be what is measured.

Each connection is a loop of its own: send a batch, receive, delete, and so on. Answers are looked
at just enough to know that every message went through.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Final, cast

import httptools
import uvloop

BATCH: Final = 10
# A receive may come back with fewer than asked for; more empty ones than this in a row is a fault.
EMPTY_RECEIVES_MAX: Final = 1_000


class SqsFailed(Exception):
    """A peer answered something else than the protocol says."""


class _Connection(asyncio.Protocol):
    """One TCP connection; some servers close theirs after every answer."""

    def __init__(self) -> None:
        self.is_usable = True
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(SqsFailed(f"the connection ended: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        body, self._body = b"".join(self._body), []
        if not self._parser.should_keep_alive():
            self.is_usable = False
            self._transport.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((status, body))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer


class _Client:
    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: _Connection | None = None

    async def call(self, action: str, fields: dict[str, object]) -> dict[str, object]:
        body = json.dumps(fields).encode()
        head = (
            f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"X-Amz-Target: AmazonSQS.{action}\r\n"
            "Content-Type: application/x-amz-json-1.0\r\n"
            "Authorization: AWS4-HMAC-SHA256 Credential=bench/20300101/us-east-1/sqs/aws4_request, "
            "SignedHeaders=host, Signature=0\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        if self._connection is None or not self._connection.is_usable:
            _, self._connection = await asyncio.get_running_loop().create_connection(
                _Connection, "127.0.0.1", self._port
            )
        status, content = await self._connection.ask(head.encode() + body)
        if status != 200:
            raise SqsFailed(f"{action}: {status} {content[:200]!r}")
        answer: dict[str, object] = json.loads(content) if content else {}
        return answer


@dataclass(frozen=True, slots=True)
class Load:
    messages: int
    seconds: float


async def _work(connection: _Client, url: str, rounds: int, body: str) -> int:
    entries = [{"Id": str(n), "MessageBody": body} for n in range(BATCH)]
    done = empty = 0
    for _ in range(rounds):
        sent = await connection.call("SendMessageBatch", {"QueueUrl": url, "Entries": entries})
        if len(_items(sent, "Successful")) != BATCH:
            raise SqsFailed(f"SendMessageBatch: {sent}")
        pending = BATCH
        while pending:
            answer = await connection.call(
                "ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": BATCH}
            )
            messages = _items(answer, "Messages")
            if not messages:
                # Another connection took what we sent; it does our share, we do its.
                empty += 1
                if empty > EMPTY_RECEIVES_MAX:
                    raise SqsFailed("ReceiveMessage finds nothing any more")
                break
            empty = 0
            deleted = await connection.call(
                "DeleteMessageBatch",
                {
                    "QueueUrl": url,
                    "Entries": [
                        {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                        for n, message in enumerate(messages)
                    ],
                },
            )
            if len(_items(deleted, "Successful")) != len(messages):
                raise SqsFailed(f"DeleteMessageBatch: {deleted}")
            done += len(messages)
            pending -= min(pending, len(messages))
    return done


def _items(answer: dict[str, object], name: str) -> list[dict[str, str]]:
    found = answer.get(name) or []
    assert isinstance(found, list)
    return found


async def _drain(connection: _Client, url: str) -> int:
    """Receive and delete what is left; returns how many."""
    done = 0
    while True:
        answer = await connection.call(
            "ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": BATCH}
        )
        messages = _items(answer, "Messages")
        if not messages:
            return done
        entries = [
            {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
            for n, message in enumerate(messages)
        ]
        await connection.call("DeleteMessageBatch", {"QueueUrl": url, "Entries": entries})
        done += len(messages)


async def _run(port: int, queue: str, rounds: int, connections: int, size_bytes: int) -> Load:
    opened = [_Client(port) for _ in range(connections)]
    created = await opened[0].call("CreateQueue", {"QueueName": queue})
    url = str(created["QueueUrl"])
    body = "x" * size_bytes
    started = time.perf_counter()
    done = sum(await asyncio.gather(*(_work(each, url, rounds, body) for each in opened)))
    done += await _drain(opened[0], url)
    seconds = time.perf_counter() - started
    wanted = rounds * connections * BATCH
    # More is allowed: SQS promises each message at least once.
    if done < wanted:
        raise SqsFailed(f"{wanted} messages were sent, {done} received and deleted")
    await opened[0].call("DeleteQueue", {"QueueUrl": url})
    return Load(wanted, seconds)


def run_load(port: int, queue: str, *, rounds: int, connections: int, size_bytes: int) -> Load:
    """Every message is sent, received and deleted in batches of ten."""
    return uvloop.run(_run(port, queue, rounds, connections, size_bytes))
