"""Some of everything a broker can do, so that every metric has something to show."""

import socket
import struct
from collections.abc import Mapping
from typing import Any, Self

import httpx
import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, Message, Producer, ShareConsumer

from tests.interop import sqs_api
from tests.interop.client_metrics import pushing_clients, subscribe
from tests.interop.prometheus_process import wait_for
from tests.interop.servers import Server
from tests.interop.test_share_groups import configure

WAIT_SECONDS = 60.0
# A broker that is held up for longer than the delay publishes at once, and nothing has waited.
SOON_MS = 5_000
TOPICS: Mapping[str, dict[str, Any]] = {
    "orders": {"queue.max.deliveries": 1},
    "jobs": {},
    "payments": {"fsync.policy": "always"},
}


class Traffic:
    """Clients that stay connected; `round` has each of them do its work once."""

    def __init__(self, server: Server) -> None:
        self._http = httpx.Client(base_url=server.http_url, timeout=WAIT_SECONDS)
        self._server = server
        self._bootstrap = server.bootstrap_servers
        for name, config in TOPICS.items():
            self._post("/topics", {"name": name, "partitions": 2, "config": config})
        configure(self._bootstrap, "sharers")
        # Metrics without attributes: the document has the labels that all have.
        pushed = {"metrics": "org.apache.kafka.producer.connection.creation.", "interval.ms": "500"}
        subscribe(self._bootstrap, "of-producers", {**pushed, "match": "client_id=pushing"})
        self._producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": "pushing",
                "enable.idempotence": True,
                "linger.ms": 0,
            }
        )
        self._transactional = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": "transfers"}
        )
        self._transactional.init_transactions(WAIT_SECONDS)
        self._sharer = ShareConsumer({"bootstrap.servers": self._bootstrap, "group.id": "sharers"})
        self._sharer.subscribe(["jobs"])
        self._consumers: list[Consumer] = []
        self._sqs = sqs_api.connect(server.http_url)
        self._rounds = 0

    def _hold_to_a_quota(self) -> None:
        """One that nobody reaches."""
        change = {"user": "", "set": {"producer_byte_rate": 10**9}}
        self._send("PATCH", "/quotas", {"changes": [change]})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._sharer.close()
        for consumer in self._consumers:
            consumer.close()

    def round(self) -> None:
        self._delay()
        self._produce()
        self._consume_in_a_group()
        self._share()
        self._use_as_a_queue()
        self._use_sqs()
        self._transact()
        self._register_a_schema()
        self._send_nonsense()
        self._rounds += 1
        wait_for(
            lambda: self._get("/delay/stats")["delivered"] == self._rounds,
            WAIT_SECONDS,
        )
        wait_for(lambda: pushing_clients(self._server).get("pushing"), WAIT_SECONDS)

    # --- Kafka ----------------------------------------------------------------------------

    def _produce(self) -> None:
        self._hold_to_a_quota()
        for number in range(20):
            for topic in TOPICS:
                self._producer.produce(topic, b"%d" % number, partition=number % 2)
        assert self._producer.flush(WAIT_SECONDS) == 0

    def _consume_in_a_group(self) -> None:
        """One more member each time, and some messages left to read."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "billing",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["payments"])
        self._consumers.append(consumer)
        message = wait_for(lambda: self._poll_all(), WAIT_SECONDS)
        consumer.commit(message=message, asynchronous=False)

    def _poll_all(self) -> Message | None:
        """All must poll, so that all give up partitions; the answer is of the last."""
        found = [consumer.poll(0.05) for consumer in self._consumers]
        message = found[-1]
        return None if message is None or message.error() else message

    def _share(self) -> None:
        wait_for(lambda: list(self._sharer.poll(0.2)), WAIT_SECONDS)

    def _transact(self) -> None:
        for is_kept in (True, False):
            self._transactional.begin_transaction()
            self._transactional.produce("payments", b"moved")
            if is_kept:
                self._transactional.commit_transaction(WAIT_SECONDS)
            else:
                self._transactional.flush(WAIT_SECONDS)
                self._transactional.abort_transaction(WAIT_SECONDS)

    def _send_nonsense(self) -> None:
        """A Metadata request (3) of version 1 whose body is cut short."""
        host, _, port = self._bootstrap.partition(":")
        body = struct.pack(">hhih", 3, 1, 7, -1) + b"\0"
        with socket.create_connection((host, int(port)), timeout=WAIT_SECONDS) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            assert connection.recv(1) == b""

    # --- HTTP -----------------------------------------------------------------------------

    def _use_as_a_queue(self) -> None:
        """One each: acknowledged, rejected to the dead letters and sent back, kept."""
        urgent = {"messages": [{"value": n, "priority": n, "partition": 0} for n in range(5)]}
        self._post("/topics/orders/messages", urgent)
        path = "/groups/workers/poll?topic=orders&max=3&timeout=5000"
        receipts = [each["receipt"] for each in self._get(path)["messages"]]
        self._post("/messages/ack", {"group": "workers", "receipts": receipts[:1]})
        self._post("/messages/reject", {"group": "workers", "receipts": receipts[1:2]})
        wait_for(lambda: self._get("/topics/orders/dlq")["deadLetters"])
        self._post("/topics/orders/dlq/redrive", {"limit": 1})

    def _delay(self) -> None:
        """One that comes soon, one that is taken back, one that stays."""
        for delay_ms in (SOON_MS, 3_600_000, 3_600_000):
            self._post("/topics/jobs/messages", {"value": "later", "delay": delay_ms})
        waiting = self._get("/topics/jobs/delayed")["messages"]
        self._send("DELETE", f"/topics/jobs/delayed/{waiting[-1]['id']}")

    def _register_a_schema(self) -> None:
        self._post("/subjects/orders-value/versions", {"schema": '"string"'})

    # --- SQS ------------------------------------------------------------------------------

    def _use_sqs(self) -> None:
        url = self._sqs.create_queue(QueueName="mail")["QueueUrl"]
        self._sqs.send_message(QueueUrl=url, MessageBody="hello")
        for message in sqs_api.receive_all(self._sqs, url, 1):
            self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        with pytest.raises(ClientError):
            self._sqs.get_queue_url(QueueName="nobody")

    # --- requests -------------------------------------------------------------------------

    def _get(self, path: str) -> Any:
        return self._send("GET", path)

    def _post(self, path: str, content: object) -> Any:
        return self._send("POST", path, content)

    def _send(self, method: str, path: str, content: object | None = None) -> Any:
        answer = self._http.request(method, path, json=content)
        assert answer.is_success, (method, path, answer.text)
        return answer.json() if answer.content else None
