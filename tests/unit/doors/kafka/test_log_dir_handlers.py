"""AlterReplicaLogDirs: a broker has one directory, and says so as Kafka does."""

from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("version", [1, 2])
async def test_replicas_stay_where_they_are(
    client: WireClient, broker: Node, tmp_path: Path, version: int
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))

    async def moved(path: str, topic: str, *indexes: int) -> list[Any]:
        topics = [{"name": topic, "partitions": indexes}]
        dirs = [{"path": path, "topics": topics}]
        answer = await client.call("alter_replica_log_dirs", version, dirs=dirs)
        (result,) = answer.results
        assert result.topic_name == topic
        return [part.error_code for part in result.partitions]

    described = await client.call("describe_log_dirs", topics=None)
    here = described.results[0].log_dir
    assert await moved(here, "a", 0, 1) == [ErrorCode.none] * 2, "they are there already"
    assert await moved(str(tmp_path), "a", 0) == [ErrorCode.log_dir_not_found]
    assert await moved("bad\0path", "a", 0) == [ErrorCode.log_dir_not_found]
    assert await moved("", "a", 1) == [ErrorCode.log_dir_not_found]
    unknown = ErrorCode.unknown_topic_or_partition
    assert await moved(here, "a", 1, 2) == [ErrorCode.none, unknown]
    assert await moved(here, "b", 0) == [unknown]
    assert await moved(str(tmp_path), "b", 0) == [ErrorCode.log_dir_not_found]
