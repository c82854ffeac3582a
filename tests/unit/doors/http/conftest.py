from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from goqueue.testing.faulty_disk import FaultyDisk


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def settings() -> dict[str, str]:
    """Broker settings of the test; a test that wants others overrides this fixture."""
    return {}


@pytest.fixture
def disk() -> FaultyDisk:
    """The disk of the broker; fails where a test tells it to."""
    return FaultyDisk()


@pytest.fixture
async def broker(tmp_path: Path, settings: dict[str, str], disk: FaultyDisk) -> AsyncIterator[Node]:
    texts = {"data.dir": str(tmp_path / "data"), "http.port": "0", **settings}
    opened = await Node.open(broker_config(texts), disk=disk)
    yield opened
    await opened.close()


@pytest.fixture
async def door(broker: Node) -> AsyncIterator[HttpDoor]:
    opened = HttpDoor(BrokerService(broker), broker.config)
    yield opened
    await opened.stop()


@pytest.fixture
async def address(broker: Node, door: HttpDoor) -> tuple[str, int]:
    host, port = await door.start()
    await broker.announce(host, 9092, port)
    return host, port


@pytest.fixture
async def client(address: tuple[str, int]) -> AsyncIterator[httpx.AsyncClient]:
    host, port = address
    async with httpx.AsyncClient(
        base_url=f"http://{host}:{port}", timeout=60, verify=False
    ) as opened:
        yield opened


@pytest.fixture
async def orders(client: httpx.AsyncClient) -> str:
    """A topic with two partitions."""
    (await client.post("/topics", json={"name": "orders", "partitions": 2})).raise_for_status()
    return "orders"
