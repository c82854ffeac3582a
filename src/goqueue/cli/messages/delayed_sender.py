"""Sends messages that are delivered later, over HTTP: Kafka's protocol cannot tell their ids."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from goqueue.cli.messages.record_text import OutgoingMessage, shown, shown_headers
from goqueue.client.http_api import HttpApi

# In one request; the broker takes ten times as many.
_REQUEST_MAX: Final = 1_000


async def send_delayed(
    topic: str,
    batches: AsyncIterator[tuple[list[OutgoingMessage], int]],
    when: dict[str, int],
    api: HttpApi,
) -> AsyncIterator[dict[str, Any]]:
    """For each message its id, partition and due time; `when` is `delay` or `deliverAt`."""
    async for messages, _ in batches:
        for some in _parts(messages):
            body = {"messages": [{**_document(each), **when} for each in some]}
            for stored in api.post("topics", topic, "messages", body=body)["messages"]:
                yield {
                    "id": stored.get("id"),
                    "partition": stored["partition"],
                    # Of one that was due already.
                    "offset": stored["offset"],
                    "deliverAt": stored["timestamp"],
                }


def _parts(messages: Sequence[OutgoingMessage]) -> Iterator[Sequence[OutgoingMessage]]:
    for start in range(0, len(messages), _REQUEST_MAX):
        yield messages[start : start + _REQUEST_MAX]


def _document(message: OutgoingMessage) -> dict[str, Any]:
    document: dict[str, Any] = {
        **shown(message.value, "value", "encoding"),
        **shown(message.key, "key", "keyEncoding"),
        "headers": shown_headers(message.headers),
    }
    if message.partition is not None:
        document["partition"] = message.partition
    if message.timestamp_ms is not None:
        document["timestamp"] = message.timestamp_ms
    return document
