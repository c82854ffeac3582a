"""A member of a share group, as a script of requests."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.records import decode_records
from tests.unit.doors.kafka.wire_client import WireClient

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
# First offset, last offset, acknowledge types.
AckBatch = tuple[int, int, list[int]]


class ShareMember:
    def __init__(self, client: WireClient, topic_id: UUID, group_id: str, member_id: str) -> None:
        self.client = client
        self.topic_id = topic_id
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = 0
        self.session_epoch = 0

    @classmethod
    async def join(
        cls, door: KafkaDoor, broker: Node, topic: str, group_id: str = "g", name: str = "m"
    ) -> "ShareMember":
        client = await WireClient.connect(*door.address)
        member = cls(client, broker.topic(topic).id, group_id, name)
        joined = await member.heartbeat(subscribed_topic_names=[topic])
        assert joined.error_code is ErrorCode.none, joined
        return member

    async def heartbeat(self, **fields: Any) -> Any:
        answer = await self.client.call(
            "share_group_heartbeat",
            group_id=self.group_id,
            member_id=self.member_id,
            **{"member_epoch": self.member_epoch, **fields},
        )
        if answer.error_code is ErrorCode.none:
            self.member_epoch = answer.member_epoch
        return answer

    async def fetch(
        self,
        partitions: Iterable[int] = (),
        acks: Mapping[int, list[AckBatch]] | None = None,
        version: int = 2,
        **fields: Any,
    ) -> Any:
        acks = acks or {}
        answer = await self.client.call(
            "share_fetch",
            version,
            group_id=self.group_id,
            member_id=self.member_id,
            topics=[
                {
                    "topic_id": self.topic_id,
                    "partitions": [
                        {"partition_index": index, "acknowledgement_batches": _batches(acks, index)}
                        for index in dict.fromkeys((*partitions, *acks))
                    ],
                }
            ],
            **{
                "share_session_epoch": self.session_epoch,
                "max_wait": 0,
                "min_bytes": 1,
                "max_bytes": 1_000_000,
                "max_records": 500,
                "batch_size": 500,
                **fields,
            },
        )
        if answer.error_code is ErrorCode.none:
            self.session_epoch += 1
        return answer

    async def acknowledge(
        self, acks: Mapping[int, list[AckBatch]], version: int = 2, **fields: Any
    ) -> Any:
        answer = await self.client.call(
            "share_acknowledge",
            version,
            group_id=self.group_id,
            member_id=self.member_id,
            topics=[
                {
                    "topic_id": self.topic_id,
                    "partitions": [
                        {"partition_index": index, "acknowledgement_batches": _batches(acks, index)}
                        for index in acks
                    ],
                }
            ],
            **{"share_session_epoch": self.session_epoch, **fields},
        )
        if answer.error_code is ErrorCode.none:
            self.session_epoch += 1
        return answer

    async def get(self, partitions: Iterable[int] = (), **fields: Any) -> dict[int, list[Any]]:
        """Fetch, and return the acquired ranges by partition."""
        return ranges(await self.fetch(partitions, **fields))


def _batches(acks: Mapping[int, list[AckBatch]], index: int) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        for first, last, types in acks.get(index, ())
    ]


def parts(answer: Any) -> dict[int, Any]:
    return {part.partition_index: part for t in answer.responses for part in t.partitions}


def ranges(answer: Any) -> dict[int, list[tuple[int, int, int]]]:
    assert answer.error_code is ErrorCode.none, answer
    found = {}
    for index, part in parts(answer).items():
        assert part.error_code is ErrorCode.none, part
        assert part.acknowledge_error_code == 0, part
        if part.acquired_records:
            found[index] = [
                (r.first_offset, r.last_offset, r.delivery_count) for r in part.acquired_records
            ]
    return found


def values(answer: Any, index: int = 0) -> list[bytes]:
    """Values of the acquired records of a partition."""
    part = parts(answer)[index]
    data = bytes(part.records) if part.records else b""
    found = []
    view = memoryview(data)
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position + 8 : position + 12]) + 12
        for record in decode_records(view[position : position + size]):
            if any(r.first_offset <= record.offset <= r.last_offset for r in part.acquired_records):
                found.append(record.value or b"")
        position += size
    return found
