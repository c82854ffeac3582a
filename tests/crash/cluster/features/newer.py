"""Features that a cluster of two releases refuses, and has once all its brokers are upgraded."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from goqueue.client.http_api import HttpApi, HttpRefused
from goqueue.testing import GoQueueCluster
from tests.unit.doors.kafka.wire_client import WireClient

PARTITIONS: Final = 3
TIMEOUT_S: Final = 30.0


class Refused(Exception):
    """In words that name the level and the brokers."""


class NewerFeatures:
    def __init__(self, cluster: GoQueueCluster) -> None:
        self._cluster = cluster
        self._uses: dict[str, Callable[[int], None]] = {
            "split": self._split,
            "partitions": self._add_partitions,
            "move": self._move,
            "topic setting": self._topic_setting,
            "broker setting": self._broker_setting,
            "client metrics": self._client_metrics,
            "streams group": self._streams_group,
            "backup": self._backup,
        }

    def prepare(self) -> None:
        for topic in ("split-later", "grown-later", "moved-later"):
            body = {"name": topic, "partitions": PARTITIONS}
            HttpApi(self._cluster.http_urls[0]).post("topics", body=body)

    def wrongly_allowed(self, node: int, older: int) -> list[str]:
        """What is not refused as it should while a broker is older."""
        found = []
        for name, use in self._uses.items():
            try:
                use(node)
                found.append(f"{name} was possible although broker {older} is older")
            except Refused as refusal:
                if f"feature level 2, which brokers of the cluster do not have: {older};" not in (
                    said := str(refusal)
                ):
                    found.append(f"{name} is refused, but not in clear words: {said}")
        return found

    def wrongly_refused(self, node: int) -> list[str]:
        """The same once there is none."""
        found = []
        for name, use in self._uses.items():
            try:
                use(node)
            except Refused as refusal:
                found.append(f"{name} is refused: {refusal}")
        return found

    def _split(self, node: int) -> None:
        self._ask(node, "post", "topics", "split-later", "split", body={"partitions": 6})

    def _add_partitions(self, node: int) -> None:
        """As Kafka's clients do, but of this broker: they ask the controller, and an older one adds
        partitions as it always did."""
        wanted = {"name": "grown-later", "count": 2 * PARTITIONS, "assignments": None}
        answer = asyncio.run(self._call(node, "create_partitions", topics=[wanted], timeout=30_000))
        [result] = answer.results
        if result.error_code is ErrorCode.unsupported_version:
            raise Refused(result.error_message)
        assert result.error_code is ErrorCode.none, result

    def _move(self, node: int) -> None:
        move = {"topic": "moved-later", "partition": 0, "replicas": [1, 2]}
        [result] = self._ask(node, "post", "cluster", "moves", body={"moves": [move]})["results"]
        if result["error"] is not None:
            raise Refused(result["error"]["message"])

    def _topic_setting(self, node: int) -> None:
        config = {"partition.growth": "plain"}
        self._ask(node, "patch", "topics", "grown-later", body={"config": config})

    def _broker_setting(self, node: int) -> None:
        self._ask(node, "patch", "cluster", "settings", body={"config": {"max.groups": 5_000}})

    def _client_metrics(self, node: int) -> None:
        self._ask(node, "put", "clients", "subscriptions", "all", body={"metrics": ["*"]})

    def _backup(self, node: int) -> None:
        self._ask(node, "post", "backups", body={"ttlMs": 1_000})

    def _ask(self, node: int, method: str, *path: str, body: object) -> Any:
        try:
            return getattr(HttpApi(self._cluster.server(node).http_url), method)(*path, body=body)
        except HttpRefused as refusal:
            raise Refused(f"{refusal.status}: {refusal.message}") from refusal

    def _streams_group(self, node: int) -> None:
        """Any broker refuses; whoever coordinates it takes it."""
        answer = asyncio.run(self._heartbeat(node))
        if answer.error_code is ErrorCode.unsupported_version:
            raise Refused(answer.error_message)
        deadline = time.monotonic() + TIMEOUT_S
        while answer.error_code is not ErrorCode.none:
            assert time.monotonic() < deadline, answer
            for each in self._cluster.node_ids:
                answer = asyncio.run(self._heartbeat(each))
                if answer.error_code is ErrorCode.none:
                    return

    async def _heartbeat(self, node: int) -> Any:
        return await self._call(
            node,
            "streams_group_heartbeat",
            group_id="streams-later",
            member_id="one",
            member_epoch=0,
            endpoint_information_epoch=-1,
            topology={
                "epoch": 0,
                "subtopologies": [{"subtopology_id": "0", "source_topics": ["moved-later"]}],
            },
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="process",
            rebalance_timeout=60_000,
            client_tags=None,
            task_offsets=None,
            task_end_offsets=None,
        )

    async def _call(self, node: int, name: str, **message: Any) -> Any:
        host, _, port = self._cluster.server(node).own_address.rpartition(":")
        client = await WireClient.connect(host, int(port))
        try:
            return await client.call(name, **message)
        finally:
            client.close()
