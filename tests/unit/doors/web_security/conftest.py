import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.doors.registry import RegistryDoor
from goqueue.doors.sqs import SqsDoor
from goqueue.model.broker_config import broker_config
from goqueue.model.caller import Caller, Door, Principal
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.access import Access
from goqueue.service.security.allowed_waits import AllowedWaits

T = TypeVar("T")

ADMIN = ("root", "root's password")
ALICE = ("alice", "wonderland")
# It is a super user by the settings of the test, before there is any user.
MAKER = Caller(principal=Principal("User", "maker"), door=Door.HTTP)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def settings() -> dict[str, str]:
    return {}


@pytest.fixture
async def broker(tmp_path: Path, settings: dict[str, str]) -> AsyncIterator[Node]:
    texts = {
        "data.dir": str(tmp_path / "data"),
        "http.port": "0",
        "security.enabled": "true",
        "super.users": "User:maker",
        "connection.failed.authentication.delay.ms": "1",
        **settings,
    }
    opened = await Node.open(broker_config(texts))
    yield opened
    await opened.close()


@pytest.fixture
async def service(broker: Node) -> BrokerService:
    made = BrokerService(broker)
    await made.users.create(MAKER, *ADMIN, is_admin=True)
    await made.users.create(MAKER, *ALICE)
    return made


@pytest.fixture
def waits(service: BrokerService) -> AllowedWaits:
    """Those who wait for messages."""
    return service.queues._access.waits


@pytest.fixture
async def url(broker: Node, service: BrokerService) -> AsyncIterator[str]:
    door = HttpDoor(service, broker.config, mounts=[SqsDoor(service), RegistryDoor(service)])
    host, port = await door.start()
    await broker.announce(host, 9092, port)
    yield f"http://{host}:{port}"
    await door.stop()


@pytest.fixture
async def nobody(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Who logs in as it says with each request."""
    async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as opened:
        yield opened


@pytest.fixture
async def admin(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=60, verify=False, auth=ADMIN) as opened:
        yield opened


def failed_log_ins(broker: Node) -> Mapping[str, int]:
    """By door, as the metrics have it."""
    return broker.audit.figures(Access().describable_cluster(MAKER)).failed_log_ins


async def refused_while_waiting(
    waiting: Awaitable[T],
    is_waiting: Callable[[], bool],
    revoke: Callable[[], Awaitable[object]],
) -> T:
    """The answer that a request gets which waits when something is taken away."""
    asking = asyncio.ensure_future(waiting)
    try:
        async with asyncio.timeout(20):
            while not is_waiting():
                assert not asking.done(), asking.result()
                await asyncio.sleep(0)
            await revoke()
        # The bar: within a second.
        async with asyncio.timeout(1):
            return await asking
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
