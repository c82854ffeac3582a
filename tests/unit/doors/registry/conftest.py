from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from goqueue.broker.node import Broker
from goqueue.doors.http import HttpDoor
from goqueue.doors.registry import RegistryDoor
from goqueue.model.broker_config import broker_config


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    texts = {"data.dir": str(tmp_path / "data"), "http.port": "0"}
    opened = await Broker.open(broker_config(texts))
    yield opened
    await opened.close()


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[httpx.AsyncClient]:
    door = HttpDoor(broker, broker.config, mounts=[RegistryDoor(broker)])
    host, port = await door.start()
    await broker.announce(host, 9092, port)
    async with httpx.AsyncClient(
        base_url=f"http://{host}:{port}", timeout=20, verify=False
    ) as opened:
        yield opened
    await door.stop()
