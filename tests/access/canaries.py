"""A broker with something of everything in it, under names and with contents that can be told.

What requests name begins with `canary`; of the rest, which nobody names, every name has `h1dden` in
it. Contents have `s3cret` in them. An answer to a caller without rights may echo the first, and
must not hold a byte of the others.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.registry import RegistryDoor
from goqueue.doors.sqs import SqsDoor
from goqueue.model.broker_config import broker_config
from goqueue.model.errors import PartitionOffline
from goqueue.model.groups.consumer_protocol import write_assignment, write_subscription
from goqueue.model.rights import Resource, TokenOwner
from goqueue.model.security.keys import KeyKind
from goqueue.model.security.rules import Rule
from goqueue.model.security.tenants import inner_name
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.rule_asking import Rules
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

TOPIC: Final = "canary-topic"
GROUP: Final = "canary-group"
# With a member, and without one.
SHARE_GROUP: Final = "canary-share-group"
EMPTY_SHARE_GROUP: Final = "canary-empty-share-group"
STREAMS_GROUP: Final = "canary-streams-group"
# With members that read the topic: of the consumer protocol, and of the classic one.
CONSUMER_GROUP: Final = "canary-consumer-group"
CLASSIC_GROUP: Final = "canary-classic-group"
TRANSACTIONAL_ID: Final = "canary-transaction"
SUBJECT: Final = "canary-subject"
USER: Final = "canary-user"
CONTEXT: Final = ":.canary-context:"
FIFO_QUEUE: Final = "canary-queue.fifo"
SOURCE_QUEUE: Final = "canary-source.fifo"
URL: Final = f"http://localhost/000000000000/{FIFO_QUEUE}"
ARN: Final = f"arn:aws:sqs:us-east-1:000000000000:{FIFO_QUEUE}"
REDRIVE_POLICY: Final = f'{{"deadLetterTargetArn": "{ARN}", "maxReceiveCount": 5}}'
QUEUE_GROUP: Final = "canary-queue-group"
# Never named by a request.
HIDDEN: Final = "h1dden"
SECRET: Final = "s3cret"

NAMES: Final = {
    Resource.TOPIC: TOPIC,
    Resource.GROUP: GROUP,
    Resource.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
    Resource.SUBJECT: SUBJECT,
    Resource.USER: USER,
}

SETTINGS: Final = {
    # What a test began must not end in another one.
    "scale.drain.ms": "3600000",
    # Some requests that are allowed shorten what is kept; it must not go while tests look on.
    "retention.check.interval.ms": "3600000",
    "kafka.port": "0",
    "http.port": "0",
    # Nothing may change by itself while a test looks for changes.
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "1800000",
    "group.share.session.timeout.ms": "1800000",
    "group.streams.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
    "topic.queue.visibility.timeout.ms": "3600000",
    "group.share.record.lock.duration.ms": "60000",
    "topic.tracing.sampling.rate": "1",
}


@dataclass(slots=True, kw_only=True)
class Doors:
    """A broker's doors, all of them with the same rules."""

    kafka: KafkaDoor
    http: HttpDoor
    url: str

    @classmethod
    async def open(cls, node: Node, rules: Rules | None) -> "Doors":
        service = BrokerService(node, rules)
        http = HttpDoor(service, node.config, mounts=[SqsDoor(service), RegistryDoor(service)])
        host, port = await http.start()
        kafka = KafkaDoor(service, node.config)
        await kafka.start()
        return cls(kafka=kafka, http=http, url=f"http://{host}:{port}")

    async def close(self) -> None:
        await self.kafka.stop()
        await self.http.stop()


@dataclass(slots=True, kw_only=True)
class World:
    node: Node
    topic_id: UUID
    hidden_topic_id: UUID
    receipt: str
    sqs_receipt: str
    delayed_id: str
    producer: dict[str, Any]
    schema_id: int
    schema_guid: str
    trace_id: str
    move_task: str

    @property
    def secrets(self) -> tuple[bytes, ...]:
        ids = (self.hidden_topic_id,)
        return (
            SECRET.encode(),
            HIDDEN.encode(),
            *(each.bytes for each in ids),
            *(str(each).encode() for each in ids),
        )

    def state(self) -> dict[str, object]:
        """Changes with everything that is stored."""
        logs = {
            str(partition.name): (partition.log_start_offset, partition.log_end_offset)
            for partition in self.node.hosted
        }
        return {"metadata": self.node.image.revision, **logs}

    def changes_since(self, before: dict[str, object]) -> dict[str, object]:
        after = self.state()
        return {
            name: after.get(name)
            for name in {*before, *after}
            if after.get(name) != before.get(name)
        }


@asynccontextmanager
async def canary_world(folder: Path) -> AsyncIterator[World]:
    texts = {"data.dir": str(folder / "data"), **SETTINGS}
    node = await Node.open(broker_config(texts))
    try:
        doors = await Doors.open(node, None)
        await node.announce("127.0.0.1", doors.kafka.address[1], 0)
        live = await WireClient.connect(*doors.kafka.address)
        async with httpx.AsyncClient(base_url=doors.url, timeout=30, verify=False) as http:
            world = await fill(node, http, live)
        try:
            yield world
        finally:
            live.close()
            await doors.close()
    finally:
        await node.close()


async def fill(node: Node, http: httpx.AsyncClient, live: WireClient, tenant: str = "") -> World:
    for name in (TOPIC, f"{HIDDEN}-topic", f"{HIDDEN}-offline"):
        await _post(http, "/topics", {"name": name, "partitions": 1})
        message = {"key": f"{SECRET}-key", "value": f"{SECRET}-value"}
        await _post(http, f"/topics/{name}/messages", {"messages": [message] * 5})
    later = {"value": f"{SECRET}-later", "delay": 3_600_000}
    scheduled = await _post(http, f"/topics/{TOPIC}/messages", later)
    receipts = []
    for group in (QUEUE_GROUP, f"{HIDDEN}-queue-group"):
        url = f"/groups/{group}/poll?topic={TOPIC}&max=1&visibility=3600000"
        answer = await http.get(url)
        answer.raise_for_status()
        receipts.append(answer.json()["messages"][0]["receipt"])
    producer: dict[str, Any] = {}
    for name in (TRANSACTIONAL_ID, f"{HIDDEN}-transaction"):
        opened = await _post(
            http, "/producers/init", {"transactionalId": name, "transactionTimeoutMs": 900_000}
        )
        await _post(http, "/transactions/begin", opened)
        await _post(http, "/transactions/add-partition", {**opened, "topic": TOPIC, "partition": 0})
        producer.setdefault("producer", opened)
    registered: dict[str, Any] = {}
    for name in (f":.{HIDDEN}-context:subject", f"{CONTEXT}subject", SUBJECT, f"{HIDDEN}-subject"):
        schema = f'{{"type": "record", "name": "{SECRET}_record", "fields": []}}'
        registered = await _post(http, f"/subjects/{name}/versions", {"schema": schema})
    for name in (GROUP, f"{HIDDEN}-group"):
        await _commit(live, name)
    await _join(live, f"{HIDDEN}-live-group", f"{SECRET}-subscription".encode())
    await _fill_groups_of_readers(live)
    await _fill_share_groups(live)
    await _fill_streams_groups(live)
    sqs_receipt, move_task = await _fill_queues(http)
    if not tenant:
        # Of all tenants, by whoever has none.
        await _fill_rules(node)
        await _fill_users(node)
    # As after a failed write.
    offline = node.hosted.get(inner_name(tenant, f"{HIDDEN}-offline"), 0)
    assert offline is not None
    offline.go_offline(PartitionOffline(f"{SECRET}: the disk is full"))
    return World(
        node=node,
        topic_id=node.image.topics[inner_name(tenant, TOPIC)].id,
        hidden_topic_id=node.image.topics[inner_name(tenant, f"{HIDDEN}-topic")].id,
        receipt=receipts[0],
        sqs_receipt=sqs_receipt,
        delayed_id=scheduled["id"],
        producer=producer["producer"],
        schema_id=registered["id"],
        schema_guid=registered["guid"],
        trace_id=await _trace_id(http),
        move_task=move_task,
    )


async def _post(http: httpx.AsyncClient, path: str, body: object) -> Any:
    answer = await http.post(path, json=body)
    assert answer.status_code < 300, (path, answer.status_code, answer.text)
    return answer.json()


async def _commit(live: WireClient, group: str) -> None:
    partition = {
        "partition_index": 0,
        "committed_offset": 3,
        "committed_metadata": f"{SECRET}-metadata",
    }
    topics = [{"name": TOPIC, "partitions": [partition]}]
    code = ErrorCode.coordinator_load_in_progress
    # The first commits of all come to coordinators that are only being made.
    async with asyncio.timeout(60):
        while code is ErrorCode.coordinator_load_in_progress:
            answer = await live.call("offset_commit", 8, group_id=group, topics=topics)
            code = answer.topics[0].partitions[0].error_code
    assert code is ErrorCode.none, code


async def _fill_groups_of_readers(live: WireClient) -> None:
    epoch = 0
    while True:
        answer = await live.call(
            "consumer_group_heartbeat",
            group_id=CONSUMER_GROUP,
            member_id="CCCCCCCCCCCCCCCCCCCCCC",
            member_epoch=epoch,
            rebalance_timeout=1_800_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        assert answer.error_code.value == 0, answer
        if answer.assignment is not None and answer.assignment.topic_partitions:
            break
        epoch = answer.member_epoch
    subscription = write_subscription(1, [TOPIC])
    generation, member = await _join(live, CLASSIC_GROUP, subscription)
    assignment = write_assignment(1, {TOPIC: [0]})
    synced = await live.call(
        "sync_group",
        3,
        group_id=CLASSIC_GROUP,
        generation_id=generation,
        member_id=member,
        assignments=[{"member_id": member, "assignment": assignment}],
    )
    assert synced.error_code.value == 0, synced


async def _join(live: WireClient, group: str, subscription: bytes) -> tuple[int, str]:
    protocols = [{"name": "range", "metadata": subscription}]
    answer = await live.call(
        "join_group",
        3,
        group_id=group,
        session_timeout=1_800_000,
        rebalance_timeout=1_800_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    assert answer.error_code.value == 0, answer
    return answer.generation_id, answer.member_id


async def _fill_share_groups(live: WireClient) -> None:
    for name in (SHARE_GROUP, f"{HIDDEN}-share-group"):
        joined = await live.call(
            "share_group_heartbeat",
            group_id=name,
            member_id="BBBBBBBBBBBBBBBBBBBBBB",
            member_epoch=0,
            rack_id=f"{SECRET}-rack",
            subscribed_topic_names=[TOPIC],
        )
        assert joined.error_code.value == 0, joined
    partition = {"partition_index": 0, "start_offset": 0}
    topics = [{"topic_name": TOPIC, "partitions": [partition]}]
    made = await live.call("alter_share_group_offsets", group_id=EMPTY_SHARE_GROUP, topics=topics)
    assert made.error_code.value == 0, made


async def _fill_streams_groups(live: WireClient) -> None:
    for name in (STREAMS_GROUP, f"{HIDDEN}-streams-group"):
        subtopology = {"subtopology_id": f"{SECRET}-subtopology", "source_topics": [TOPIC]}
        joined = await live.call(
            "streams_group_heartbeat",
            group_id=name,
            member_id="DDDDDDDDDDDDDDDDDDDDDD",
            member_epoch=0,
            rebalance_timeout=1_800_000,
            process_id=f"{SECRET}-process",
            client_tags=[{"key": "zone", "value": f"{SECRET}-zone"}],
            user_endpoint={"host": f"{SECRET}-host", "port": 1},
            topology={"epoch": 0, "subtopologies": [subtopology]},
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        assert joined.error_code.value == 0, joined


async def _fill_rules(node: Node) -> None:
    rule = Rule(
        resource=Resource.TOPIC, name=f"{HIDDEN}-topic", principal=f"User:{SECRET}-user", verb=None
    )
    await BrokerService(node).rules.add(ANYONE, [rule])


async def _fill_users(node: Node) -> None:
    service = BrokerService(node)
    for name in (USER, f"{HIDDEN}-user"):
        await service.users.create(ANYONE, name, f"{SECRET}-password")
    await service.keys.create(ANYONE, f"{HIDDEN}-user", KeyKind.API, label=f"{SECRET}-label")
    await node.security.tokens.create(
        TokenOwner(f"User:{HIDDEN}-user"),
        requester=ANYONE.principal,
        renewers=[f"User:{HIDDEN}-renewer"],
        max_lifetime_ms=None,
        tenant="",
        user=node.security.users.find(f"{HIDDEN}-user"),
    )


async def _trace_id(http: httpx.AsyncClient) -> str:
    answer = await http.get(f"/traces/messages/{TOPIC}/0/0")
    found: str = answer.json()["traceId"]
    return found


async def _fill_queues(http: httpx.AsyncClient) -> tuple[str, str]:
    """A receipt of a message, and the handle of a task that moves dead letters."""
    for name in (f"{HIDDEN}-queue.fifo", FIFO_QUEUE, SOURCE_QUEUE):
        more = {"RedrivePolicy": REDRIVE_POLICY} if name == SOURCE_QUEUE else {}
        made = await sqs(
            http, "CreateQueue", QueueName=name, Attributes={"FifoQueue": "true", **more}
        )
        assert made.status_code == 200, made.text
        message = {
            "QueueUrl": made.json()["QueueUrl"],
            "MessageBody": f"{SECRET}-body",
            "MessageGroupId": "g",
            "MessageDeduplicationId": "d",
        }
        # What a queue keeps beside its topic is only being made.
        async with asyncio.timeout(60):
            while (sent := await sqs(http, "SendMessage", **message)).status_code == 503:
                await asyncio.sleep(0.01)
        assert sent.status_code == 200, sent.text
    received = await sqs(http, "ReceiveMessage", QueueUrl=URL, VisibilityTimeout=3_600)
    receipt: str = received.json()["Messages"][0]["ReceiptHandle"]
    started = await sqs(http, "StartMessageMoveTask", SourceArn=ARN)
    handle: str = started.json()["TaskHandle"]
    async with asyncio.timeout(30):
        while await _is_moving(http):
            await asyncio.sleep(0.02)
    return receipt, handle


async def _is_moving(http: httpx.AsyncClient) -> bool:
    listed = await sqs(http, "ListMessageMoveTasks", SourceArn=ARN)
    return any(task["Status"] == "RUNNING" for task in listed.json()["Results"])


async def sqs(http: httpx.AsyncClient, action: str, **fields: object) -> httpx.Response:
    headers = {
        "x-amz-target": f"AmazonSQS.{action}",
        "content-type": "application/x-amz-json-1.0",
    }
    return await http.post("/", json=fields, headers=headers)
