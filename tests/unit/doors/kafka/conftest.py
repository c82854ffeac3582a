from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.broker.node import Broker
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.broker_config import broker_config
from tests.unit.doors.kafka.wire_client import WireClient


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def settings() -> dict[str, str]:
    """Broker settings of the test; a test that wants others overrides this fixture."""
    return {}


@pytest.fixture
async def broker(tmp_path: Path, settings: dict[str, str]) -> AsyncIterator[Broker]:
    texts = {"data.dir": str(tmp_path / "data"), "kafka.port": "0", "http.port": "0", **settings}
    opened = await Broker.open(broker_config(texts))
    yield opened
    await opened.close()


@pytest.fixture
async def door(broker: Broker) -> AsyncIterator[KafkaDoor]:
    opened = KafkaDoor(broker, broker.config)
    host, port = await opened.start()
    await broker.announce(host, port, 0)
    yield opened
    await opened.stop()


@pytest.fixture
async def client(door: KafkaDoor) -> AsyncIterator[WireClient]:
    connected = await WireClient.connect(*door.address)
    yield connected
    connected.close()
