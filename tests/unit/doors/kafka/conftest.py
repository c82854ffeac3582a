from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from tests.unit.doors.kafka.wire_client import WireClient


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def settings() -> dict[str, str]:
    """Broker settings of the test; a test that wants others overrides this fixture."""
    return {}


@pytest.fixture
async def broker(tmp_path: Path, settings: dict[str, str]) -> AsyncIterator[Node]:
    texts = {"data.dir": str(tmp_path / "data"), "kafka.port": "0", "http.port": "0", **settings}
    opened = await Node.open(broker_config(texts))
    yield opened
    await opened.close()


@pytest.fixture
async def door(broker: Node) -> AsyncIterator[KafkaDoor]:
    opened = KafkaDoor(BrokerService(broker), broker.config)
    host, port = await opened.start()
    await broker.announce(host, port, 0)
    yield opened
    await opened.stop()


@pytest.fixture
async def client(door: KafkaDoor) -> AsyncIterator[WireClient]:
    connected = await WireClient.connect(*door.address)
    yield connected
    connected.close()
