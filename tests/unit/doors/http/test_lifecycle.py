import asyncio
import signal
from pathlib import Path

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.doors.http import traffic as http_traffic
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from tests.busy_machine import stretched
from tests.unit.doors.http.answers import error_code

pytestmark = pytest.mark.anyio

POLL = "/topics/orders/partitions/0/messages?maxWait=30000"


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What still comes, whether the other side closes or resets."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_stopping_answers_long_polls_and_takes_less_than_a_second(
    broker: Node, door: HttpDoor, client: httpx.AsyncClient, orders: str
) -> None:
    await client.get("/healthz")
    polls = [asyncio.create_task(client.get(POLL)) for _ in range(20)]
    await until(lambda: len(broker.partition(orders, 0).waiters) == 20)
    loop = asyncio.get_running_loop()
    before = loop.time()

    await door.stop()

    assert loop.time() - before < stretched(1)
    for answered in await asyncio.gather(*polls):
        assert error_code(answered, 503) == "shutting_down"
    assert not broker.partition(orders, 0).waiters
    with pytest.raises(httpx.ConnectError):
        await client.get("/healthz")


@pytest.mark.parametrize(
    ("method", "end"), [(b"GET", b"}"), (b"HEAD", b"\r\n\r\n")], ids=["body", "no body"]
)
async def test_a_head_does_not_go_out_alone(
    address: tuple[str, int], orders: str, method: bytes, end: bytes
) -> None:
    """A broker that is killed leaves whole answers or none: some take a head for all of it."""
    for _ in range(20):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(
            b"%s /topics/%s HTTP/1.1\r\nhost: localhost\r\n\r\n" % (method, orders.encode())
        )
        first = await reader.read(65_536)
        assert first.startswith(b"HTTP/1.1 200")
        assert first.endswith(end)
        writer.close()


async def test_stopping_refuses_and_hangs_up_on_who_does_not_finish(
    door: HttpDoor, address: tuple[str, int]
) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(
        b"POST /topics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: 10\r\n\r\n{"
    )
    quiet_reader, quiet_writer = await asyncio.open_connection(*address)
    await until(lambda: door._traffic.in_flight == 1)
    loop = asyncio.get_running_loop()
    before = loop.time()

    await door.stop()

    assert loop.time() - before < stretched(1)
    assert door._traffic.in_flight == 0
    assert (await read_to_end(reader)).startswith(b"HTTP/1.1 503 ")
    assert await read_to_end(quiet_reader) == b""
    writer.close()
    quiet_writer.close()


async def test_a_request_under_way_is_answered_before_the_end(
    door: HttpDoor, address: tuple[str, int]
) -> None:
    reader, writer = await asyncio.open_connection(*address)
    body = b'{"value": "last"}'
    head = (
        b"POST /topics/orders/messages HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    writer.write(head + body[:5])
    await until(lambda: door._traffic.in_flight == 1)

    stopping = asyncio.create_task(door.stop())
    await until(door._closing.is_set)
    writer.write(body[5:])
    answer = await reader.read()
    await stopping

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answer
    writer.close()


async def test_who_waits_for_others_is_refused_before_the_end(
    broker: Node, door: HttpDoor, client: httpx.AsyncClient, orders: str
) -> None:
    turn = broker.partition(orders, 0).turn
    async with turn:
        message = {"value": "last", "partition": 0}
        asked = asyncio.create_task(client.post(f"/topics/{orders}/messages", json=message))
        await until(lambda: turn.in_line == 2)

        await door.stop()
        answer = await asked

    assert error_code(answer, 503) == "shutting_down"
    assert answer.headers["retry-after"]
    assert answer.headers["connection"] == "close"
    assert door._traffic.in_flight == 0


async def test_stopping_twice_or_before_the_start_is_nothing(door: HttpDoor) -> None:
    await door.stop()
    await door.start()
    await door.stop()
    await door.stop()


async def test_the_port_in_use_is_an_error_of_the_system(
    broker: Node, address: tuple[str, int], tmp_path: Path
) -> None:
    texts = {"data.dir": str(tmp_path / "data"), "http.port": str(address[1])}
    second = HttpDoor(BrokerService(broker), broker_config(texts))

    with pytest.raises(OSError, match="in use"):
        await second.start()


@pytest.mark.usefixtures("address")
async def test_signals_are_left_alone(door: HttpDoor) -> None:
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    await door.stop()

    assert handlers == {each: signal.getsignal(each) for each in handlers}
    assert handlers[signal.SIGTERM] in (signal.SIG_DFL, signal.SIG_IGN)


async def test_requests_beyond_the_limit_are_sent_away(
    broker: Node, client: httpx.AsyncClient, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_traffic, "REQUESTS_IN_FLIGHT_MAX", 2)
    polls = [asyncio.create_task(client.get(POLL)) for _ in range(2)]
    await until(lambda: len(broker.partition(orders, 0).waiters) == 2)

    refused = await client.get("/topics")

    assert error_code(refused, 503) == "overloaded"
    assert refused.headers["retry-after"]
    for poll in polls:
        poll.cancel()
    await until(lambda: not broker.partition(orders, 0).waiters)
    assert (await client.get("/topics")).status_code == 200


async def test_answers_carry_the_date(client: httpx.AsyncClient) -> None:
    answered = await client.get("/healthz")

    assert answered.headers["date"].endswith("GMT")
    assert "server" not in answered.headers
