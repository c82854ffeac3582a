import asyncio
from base64 import b64decode

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.model.records import NewRecord
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.hostile_batches import batch, one_huge_record
from tests.publishing import publish
from tests.stored_records import read_records
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio

PATH = "/topics/orders/partitions/0/messages"
# One message a minute from 2023-11-14T22:00:00Z on.
START_MS = 1_699_999_200_000
MINUTE_MS = 60_000


@pytest.fixture
async def ten(broker: Node, orders: str) -> None:
    for number in range(10):
        record = NewRecord(value=f"m{number}".encode(), timestamp_ms=START_MS + number * MINUTE_MS)
        await publish(broker, orders, [record], partition=0)


def offsets(response: httpx.Response) -> list[int]:
    assert response.status_code == 200, response.text
    return [message["offset"] for message in response.json()["messages"]]


@pytest.mark.usefixtures("orders")
async def test_an_empty_partition(client: httpx.AsyncClient) -> None:
    assert (await client.get(PATH)).json() == {
        "messages": [],
        "nextOffset": 0,
        "untilOffset": None,
        "logStartOffset": 0,
        "highWatermark": 0,
    }


@pytest.mark.usefixtures("ten")
async def test_pages_by_offset(client: httpx.AsyncClient) -> None:
    seen = []
    offset = "earliest"
    for _ in range(4):
        page = (await client.get(PATH, params={"offset": offset, "limit": 4})).json()
        seen.append([message["value"] for message in page["messages"]])
        assert page["highWatermark"] == 10
        offset = str(page["nextOffset"])

    assert seen == [["m0", "m1", "m2", "m3"], ["m4", "m5", "m6", "m7"], ["m8", "m9"], []]
    assert offset == "10"


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", list(range(10))),
        ("offset=latest", []),
        ("offset=10", []),
        ("offset=9", [9]),
        (f"timestamp={START_MS + 7 * MINUTE_MS}", [7, 8, 9]),
        (f"timestamp={START_MS + 7 * MINUTE_MS - 1}", [7, 8, 9]),
        ("timestamp=2023-11-14T22:08:00Z", [8, 9]),
        ("timestamp=2023-11-14T22:08", [8, 9]),
        ("timestamp=2023-11-14T23:08:00.000%2B01:00", [8, 9]),
        ("timestamp=2023-11-15", []),
        (f"timestamp={START_MS + 99 * MINUTE_MS}", []),
        ("until=2023-11-14T22:03:00Z", [0, 1, 2]),
        ("offset=1&until=2023-11-14T22:03:00Z", [1, 2]),
        ("offset=5&until=2023-11-14T22:03:00Z", []),
        ("timestamp=2023-11-14T22:02:00Z&until=2023-11-14T22:04:00Z", [2, 3]),
        ("timestamp=2023-11-14T22:02:00Z&until=2023-11-14T22:04:00Z&limit=1", [2]),
        ("until=2030-01-01", list(range(10))),
        ("until=1", []),
    ],
)
async def test_where_reading_begins_and_ends(
    client: httpx.AsyncClient, query: str, expected: list[int]
) -> None:
    assert offsets(await client.get(f"{PATH}?{query}")) == expected


@pytest.mark.usefixtures("ten")
async def test_a_time_range_says_when_it_is_over(client: httpx.AsyncClient) -> None:
    page = (await client.get(f"{PATH}?offset=2&until=2023-11-14T22:04:00Z&maxWait=30000")).json()
    assert (page["nextOffset"], page["untilOffset"]) == (4, 4)

    # Nothing can come any more, so this does not wait.
    async with asyncio.timeout(25):
        done = (
            await client.get(f"{PATH}?offset=4&until=2023-11-14T22:04:00Z&maxWait=30000")
        ).json()
    assert (done["messages"], done["nextOffset"]) == ([], 4)


async def test_encodings(client: httpx.AsyncClient, broker: Node, orders: str) -> None:
    values = [b"text", b'{"a":  1.0}', b"\xff\x00", None, b"null", b'"quoted"', b"[" * 5000]
    for value in values:
        record = NewRecord(value=value, key=b"\xfe", headers=(("h", b"\xfd"), ("n", None)))
        await publish(broker, orders, [record], partition=0)

    async def shown(encoding: str) -> list[tuple[object, str]]:
        page = (await client.get(PATH, params={"encoding": encoding})).json()["messages"]
        for message in page:
            assert (message["key"], message["keyEncoding"]) == ("/g==", "base64")
            assert message["headers"] == [
                {"name": "h", "value": "/Q==", "encoding": "base64"},
                {"name": "n", "value": None, "encoding": "text"},
            ]
        return [(message["value"], message["encoding"]) for message in page]

    assert await shown("text") == [
        ("text", "text"),
        ('{"a":  1.0}', "text"),
        ("/wA=", "base64"),
        (None, "text"),
        ("null", "text"),
        ('"quoted"', "text"),
        ("[" * 5000, "text"),
    ]
    assert await shown("json") == [
        ("text", "text"),
        ({"a": 1.0}, "json"),
        ("/wA=", "base64"),
        (None, "text"),
        (None, "json"),
        ("quoted", "json"),
        ("[" * 5000, "text"),
    ]
    raw = await shown("base64")
    assert [b64decode(str(value)) if value is not None else None for value, _ in raw] == values
    assert [encoding for _, encoding in raw] == ["base64"] * 3 + ["text"] + ["base64"] * 3


async def test_what_was_read_can_be_published_again(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    for value in (b"text", b"\xff", b'{"a":1}', None, b"null"):
        record = NewRecord(value=value, key=b"\xfe\x00", headers=(("h", b"\xfd"),))
        await publish(broker, orders, [record], partition=0)
    for encoding in ("text", "json", "base64"):
        page = (await client.get(PATH, params={"encoding": encoding})).json()["messages"]
        copies = [{**message, "partition": 1} for message in page]
        for copy in copies:
            del copy["offset"]
        answered = await client.post(f"/topics/{orders}/messages", json={"messages": copies})
        assert answered.status_code == 200, answered.text

    original = (await read_records(broker, orders, 0, 0, limit=100)).records
    copied = (await read_records(broker, orders, 1, 0, limit=100)).records
    for index, copied_record in enumerate(copied):
        source = original[index % len(original)]
        assert (copied_record.key, copied_record.value) == (source.key, source.value)
        assert copied_record.headers == source.headers
        assert copied_record.timestamp_ms == source.timestamp_ms
    assert len(copied) == 3 * len(original)


async def test_a_long_poll_ends_with_the_first_message(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    async with asyncio.timeout(25), asyncio.TaskGroup() as group:
        poll = group.create_task(client.get(PATH, params={"maxWait": 30_000}, timeout=60))
        partition = broker.partition(orders, 0)
        while not partition.waiters:
            await asyncio.sleep(0.001)
        await publish(broker, orders, [NewRecord(value=b"now")], partition=0)

    assert [message["value"] for message in poll.result().json()["messages"]] == ["now"]


@pytest.mark.usefixtures("orders")
async def test_a_long_poll_gives_up_in_time(client: httpx.AsyncClient) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()

    page = await client.get(PATH, params={"maxWait": 100})

    assert offsets(page) == []
    assert 0.09 <= loop.time() - before < 25


async def test_a_client_that_hangs_up_is_not_waited_for(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    partition = broker.partition(orders, 0)
    poll = asyncio.create_task(client.get(PATH, params={"maxWait": 30_000}))
    async with asyncio.timeout(25):
        while not partition.waiters:
            await asyncio.sleep(0.001)
        poll.cancel()
        while partition.waiters:
            await asyncio.sleep(0.001)


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize("offset", ["11", "9999999999999999999"])
async def test_beyond_the_end(client: httpx.AsyncClient, offset: str) -> None:
    refused = await client.get(PATH, params={"offset": offset})

    assert error_code(refused, 416) == "offset_out_of_range"
    assert "0 to 10" in error_message(refused)


@pytest.mark.usefixtures("ten")
async def test_before_the_beginning(client: httpx.AsyncClient, broker: Node) -> None:
    await BrokerService(broker).log.delete_records(ANYONE, "orders", 0, 4)

    assert error_code(await client.get(f"{PATH}?offset=3"), 416) == "offset_out_of_range"
    page = await client.get(PATH)
    assert offsets(page) == [4, 5, 6, 7, 8, 9]
    assert page.json()["logStartOffset"] == 4


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("offset=-1", "offset"),
        ("offset=x", "offset"),
        ("offset=1.5", "offset"),
        ("offset=", "offset"),
        ("offset=1%0A", "offset"),
        ("limit=0", "limit"),
        ("limit=-3", "limit"),
        ("limit=10001", "limit"),
        ("limit=many", "limit"),
        ("maxWait=30001", "maxWait"),
        ("maxWait=-1", "maxWait"),
        ("timestamp=yesterday", "timestamp"),
        ("until=-5", "until"),
        ("encoding=utf-16", "encoding"),
        ("offest=1", "offest"),
        ("offset=1&offset=2", "offset"),
        ("offset=%FF", "query"),
    ],
)
async def test_bad_queries(client: httpx.AsyncClient, query: str, field: str) -> None:
    refused = await client.get(f"{PATH}?{query}")

    assert error_code(refused, 400) == "invalid_request"
    assert field in error_message(refused)


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    "query", ["offset=1&timestamp=1", "timestamp=2023-13-01", "until=2023-02-30T00:00"]
)
async def test_refused_queries(client: httpx.AsyncClient, query: str) -> None:
    assert error_code(await client.get(f"{PATH}?{query}"), 422)


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/topics/none/partitions/0/messages", "unknown_topic"),
        ("/topics/orders/partitions/2/messages", "unknown_partition"),
        ("/topics/orders/partitions/x/messages", "unknown_path"),
        ("/topics/orders/partitions/99999999999999999999/messages", ""),
        ("/topics/orders/partitions/-1/messages", ""),
    ],
)
async def test_paths_to_nothing(client: httpx.AsyncClient, path: str, code: str) -> None:
    if code:
        assert error_code(await client.get(path), 404) == code
    else:
        assert error_code(await client.get(path), 400) == "invalid_request"


async def test_what_cannot_be_decoded_is_passed_over_by_name(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    await publish(broker, orders, [NewRecord(value=b"before")], partition=0)
    partition = broker.partition(orders, 0)
    partition.append_own(one_huge_record("zstd", 64 * 1024 * 1024))
    partition.append_own(batch(b"twelve bytes", count=1_000_000))
    await publish(broker, orders, [NewRecord(value=b"after")], partition=0)
    page = (await client.get(PATH)).json()
    assert [message["value"] for message in page["messages"]] == ["before", "after"]
    assert [(part["firstOffset"], part["lastOffset"]) for part in page["passedOver"]] == [
        (1, 1),
        (2, 1_000_001),
    ]
    assert "max.decompressed.message.bytes" in page["passedOver"][0]["reason"]
    inside = (await client.get(PATH, params={"offset": "5"})).json()
    assert [message["value"] for message in inside["messages"]] == ["after"]
