from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.doors.registry import RegistryDoor
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.rule_asking import Rules


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Node]:
    texts = {"data.dir": str(tmp_path / "data"), "http.port": "0"}
    opened = await Node.open(broker_config(texts))
    yield opened
    await opened.close()


@asynccontextmanager
async def opened_door(broker: Node, rules: Rules | None = None) -> AsyncIterator[httpx.AsyncClient]:
    service = BrokerService(broker, rules)
    door = HttpDoor(service, broker.config, mounts=[RegistryDoor(service)])
    host, port = await door.start()
    await broker.announce(host, 9092, port)
    async with httpx.AsyncClient(
        base_url=f"http://{host}:{port}", timeout=60, verify=False
    ) as opened:
        yield opened
    await door.stop()


@pytest.fixture
async def client(broker: Node) -> AsyncIterator[httpx.AsyncClient]:
    async with opened_door(broker) as opened:
        yield opened
