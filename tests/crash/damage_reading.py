"""Everything that a broker says of its data, to be held against what it said before the damage."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.crash.damage_folders import (
    COMPACTED,
    GROUPS,
    QUEUE_GROUP,
    SUBJECTS,
    TOPICS,
    compacted_message,
)
from tests.crash.forked_server import LIMIT_SECONDS

Message = tuple[str | None, str | None]


@dataclass(slots=True)
class Content:
    # By topic and offset: key and value.
    messages: dict[tuple[str, int], Message] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    schemas: dict[str, str] = field(default_factory=dict)
    delayed: dict[str, str] = field(default_factory=dict)
    # How often each message of the queue was delivered; those that were acknowledged are not there.
    deliveries: dict[int, int] = field(default_factory=dict)
    # What was refused, and why.
    errors: list[str] = field(default_factory=list)

    def differences(self, truth: "Content") -> list[str]:
        """What was never so. Of groups and schemas an older state is no lie, but incomplete."""
        wrong = [
            f"{place}: {message} instead of {truth.messages.get(place)}"
            for place, message in self.messages.items()
            if truth.messages.get(place) != message and not truth._has_compacted(place, message)
        ]
        wrong += [
            f"{group} has offset {offset}"
            for group, offset in self.offsets.items()
            if offset not in (truth.offsets[group], truth.offsets[group] - 10)
        ]
        wrong += [
            f"delayed {id_}"
            for id_, value in self.delayed.items()
            if truth.delayed.get(id_) != value
        ]
        wrong += [
            f"message {offset} of the queue was delivered {count} times"
            for offset, count in self.deliveries.items()
            if count > truth.deliveries.get(offset, count)
        ]
        return wrong

    def missing(self, truth: "Content") -> list[str]:
        lost = (
            place
            for place, message in truth.messages.items()
            if place not in self.messages and not self._is_compacted(place, message)
        )
        return [
            *(f"message {place}" for place in lost),
            *(
                f"offset of {g}"
                for g, offset in truth.offsets.items()
                if self.offsets.get(g) != offset
            ),
            *(f"schema {s}" for s, text in truth.schemas.items() if self.schemas.get(s) != text),
            *(f"delayed {id_}" for id_ in truth.delayed if id_ not in self.delayed),
            *(
                f"state of message {offset} in the queue"
                for offset in truth.deliveries.keys() | self.deliveries.keys()
                if self.deliveries.get(offset) != truth.deliveries.get(offset)
            ),
        ]

    def _has_compacted(self, place: tuple[str, int], message: Message) -> bool:
        """Whether compaction took it away while this was read, and not while the other was."""
        return (
            place not in self.messages
            and place[0] in COMPACTED
            and compacted_message(*place) == message
            and self._is_compacted(place, message)
        )

    def _is_compacted(self, place: tuple[str, int], message: Message) -> bool:
        """Whether a later one of its key is there: compaction goes on while all is read."""
        topic, offset = place
        return topic in COMPACTED and any(
            (other, key) == (topic, message[0]) and at > offset
            for (other, at), (key, _) in self.messages.items()
        )


def read_all(ready_file: Path) -> Content:
    url = json.loads(ready_file.read_text())["http_url"]
    content = Content()
    with httpx.Client(base_url=url, timeout=LIMIT_SECONDS) as http:
        for topic in TOPICS:
            _read_topic(http, topic, content)
        for group in GROUPS:
            answer = _get(http, f"/groups/{group}/offsets", content)
            for each in (answer or {}).get("offsets", ()):
                content.offsets[group] = each["committedOffset"]
        for subject in SUBJECTS:
            answer = _get(http, f"/subjects/{subject}/versions/latest", content)
            if answer is not None:
                content.schemas[subject] = f"{answer['id']} {answer['version']} {answer['schema']}"
        answer = _get(http, "/topics/plain/delayed", content)
        for each in (answer or {}).get("messages", ()):
            content.delayed[each["id"]] = each["value"]
        received = http.post(f"/groups/{QUEUE_GROUP}/receive", json={"topic": "plain", "max": 200})
        if not received.is_success:
            content.errors.append(f"receive: {received.status_code} {received.text[:200]}")
        else:
            for message in received.json()["messages"]:
                content.deliveries[message["offset"]] = message["deliveryCount"]
        ready = http.get("/readyz")
        if not ready.is_success:
            content.errors.append(ready.text)
    return content


def _read_topic(http: httpx.Client, topic: str, content: Content) -> None:
    path = f"/topics/{topic}/partitions/0/messages"
    described = _get(http, f"{path}?offset=latest", content)
    if described is None:
        return
    offset, end = described["logStartOffset"], described["highWatermark"]
    while offset < end:
        page = _get(http, f"{path}?offset={offset}&limit=1000", content)
        if page is None:
            offset += 1
            continue
        for message in page["messages"]:
            content.messages[topic, message["offset"]] = (message["key"], message["value"])
        content.errors += [str(part) for part in page.get("passedOver", ())]
        if page["nextOffset"] <= offset:
            content.errors.append(f"{topic}: stuck at {offset}")
            return
        offset = page["nextOffset"]


def _get(http: httpx.Client, path: str, content: Content) -> dict[str, Any] | None:
    answer = http.get(path)
    if answer.is_success:
        found: dict[str, Any] = answer.json()
        return found
    content.errors.append(f"{path}: {answer.status_code} {answer.text[:200]}")
    return None
