import json

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.broker.own_grants import own_state
from goqueue.model.errors import PartitionOffline
from goqueue.model.partitioner import partition_for_key
from goqueue.model.records import Record
from tests.stored_records import read_records
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio


async def stored(broker: Node, topic: str, partition: int) -> list[Record]:
    return (await read_records(broker, topic, partition, 0, limit=1000)).records


async def test_one_message(client: httpx.AsyncClient, broker: Node, orders: str) -> None:
    answered = await client.post(
        f"/topics/{orders}/messages",
        json={
            "key": "k",
            "value": "hello",
            "headers": {"trace": "abc", "none": None},
            "partition": 1,
            "timestamp": 1_700_000_000_000,
        },
    )

    assert answered.status_code == 200
    assert answered.json() == {"partition": 1, "offset": 0, "timestamp": 1_700_000_000_000}
    [record] = await stored(broker, orders, 1)
    assert (record.key, record.value) == (b"k", b"hello")
    assert record.headers == (("trace", b"abc"), ("none", None))
    assert record.timestamp_ms == 1_700_000_000_000


async def test_many_messages_are_answered_in_order(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    messages = [
        {"value": "0", "partition": 1},
        {"value": "1", "partition": 0},
        {"value": "2", "partition": 1},
    ]

    answered = await client.post(f"/topics/{orders}/messages", json={"messages": messages})

    places = [(one["partition"], one["offset"]) for one in answered.json()["messages"]]
    assert places == [(1, 0), (0, 0), (1, 1)]
    assert [record.value for record in await stored(broker, orders, 1)] == [b"0", b"2"]


async def test_a_partition_that_fails_is_told_with_how_many_were_stored(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    broker.partition(orders, 1).hosted.go_offline(PartitionOffline("disk full"))
    messages = [{"value": "v", "partition": number % 2} for number in range(5)]

    answered = await client.post(f"/topics/{orders}/messages", json={"messages": messages})

    assert answered.status_code == 503
    assert error_message(answered).endswith("; 3 of 5 messages were stored all the same")
    assert len(await stored(broker, orders, 0)) == 3
    alone = await client.post(f"/topics/{orders}/messages", json={"messages": messages[1:2]})
    assert (alone.status_code, error_message(alone)) == (503, "disk full")


async def test_a_key_goes_where_kafka_clients_send_it(
    client: httpx.AsyncClient, orders: str
) -> None:
    keys = [f"key-{number}" for number in range(20)]

    answered = await client.post(
        f"/topics/{orders}/messages",
        json={"messages": [{"key": key, "value": ""} for key in keys]},
    )

    chosen = [one["partition"] for one in answered.json()["messages"]]
    assert chosen == [partition_for_key(key.encode(), 2) for key in keys]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ('"value": "text"', b"text"),
        ('"value": "\\u0000ä"', "\0ä".encode()),
        ('"value": ""', b""),
        ('"value": null', None),
        ('"value": {"b": 1.0,  "a": [1e2]}', b'{"b": 1.0,  "a": [1e2]}'),
        ('"value": 123456789012345678901234567890', b"123456789012345678901234567890"),
        ('"value": true', b"true"),
        ('"value": "text", "encoding": "json"', b'"text"'),
        ('"value": null, "encoding": "json"', b"null"),
        ('"value": "text", "encoding": "text"', b"text"),
        ('"value": null, "encoding": "text"', None),
        ('"value": "AP//", "encoding": "base64"', b"\x00\xff\xff"),
        ('"value": null, "encoding": "base64"', None),
    ],
)
async def test_what_is_stored_for_a_value(
    client: httpx.AsyncClient, broker: Node, orders: str, fields: str, expected: bytes | None
) -> None:
    answered = await client.post(
        f"/topics/{orders}/messages",
        content=f'{{{fields}, "partition": 0}}',
        headers={"content-type": "application/json"},
    )

    assert answered.status_code == 200, answered.text
    [record] = await stored(broker, orders, 0)
    assert record.value == expected


async def test_bytes_in_keys_and_headers(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    await client.post(
        f"/topics/{orders}/messages",
        json={
            "key": "/wA=",
            "keyEncoding": "base64",
            "value": "",
            "partition": 0,
            "headers": [
                {"name": "h", "value": "/w==", "encoding": "base64"},
                {"name": "h", "value": "again"},
            ],
        },
    )

    [record] = await stored(broker, orders, 0)
    assert record.key == b"\xff\x00"
    assert record.headers == (("h", b"\xff"), ("h", b"again"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"key": "k"}', "value"),
        ("{}", "value"),
        ('{"messages": []}', "messages"),
        ('{"messages": [{"value": 1}], "key": "k"}', "messages"),
        ('{"messages": [{"value": 1}, {}]}', "messages[1]"),
        ('{"value": 1, "colour": 3}', "colour"),
        ('{"messages": [{"value": 1, "shape": 5}]}', "shape"),
        ('{"value": 1, "key": 5}', "key"),
        ('{"value": 1, "partition": -1}', "partition"),
        ('{"value": 1, "partition": 1e400}', "partition"),
        ('{"value": 1, "partition": 3000000000}', "partition"),
        ('{"value": 1, "timestamp": -5}', "timestamp"),
        ('{"value": 1, "timestamp": 9223372036854775808}', "timestamp"),
        ('{"value": 1, "encoding": "utf-16"}', "encoding"),
        ('{"value": 1, "headers": {"h": 1}}', "headers"),
        ('{"value": 1, "headers": [{"name": "h"}]}', "headers"),
        ("[]", "object"),
        ("null", "object"),
    ],
)
async def test_requests_of_the_wrong_form(
    client: httpx.AsyncClient, broker: Node, orders: str, body: str, said: str
) -> None:
    refused = await client.post(
        f"/topics/{orders}/messages", content=body, headers={"content-type": "application/json"}
    )

    assert error_code(refused, 400) == "invalid_request"
    assert said in error_message(refused)
    assert not await stored(broker, orders, 0)
    assert not await stored(broker, orders, 1)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"value": 1, "encoding": "text"}, "invalid_value"),
        ({"value": "***", "encoding": "base64"}, "invalid_base64"),
        ({"value": "", "key": "A", "keyEncoding": "base64"}, "invalid_base64"),
        ({"value": "", "partition": 2}, "unknown_partition"),
        ({"value": "", "timestamp": 253_402_300_799_999}, "invalid_timestamp"),
    ],
)
async def test_one_bad_message_refuses_all_before_it_is_stored(
    client: httpx.AsyncClient, broker: Node, orders: str, message: dict[str, object], code: str
) -> None:
    alone = await client.post(f"/topics/{orders}/messages", json=message)
    among = await client.post(
        f"/topics/{orders}/messages",
        json={"messages": [{"value": "good", "partition": 0}, {"partition": 0, **message}]},
    )

    assert error_code(alone, 422) == code
    assert error_code(among, 422) == code
    assert not await stored(broker, orders, 0)
    assert not await stored(broker, orders, 1)


async def test_a_message_over_the_topics_limit(client: httpx.AsyncClient) -> None:
    await client.post("/topics", json={"name": "small", "config": {"max.message.bytes": 500}})

    refused = await client.post("/topics/small/messages", json={"value": "x" * 600})

    assert error_code(refused, 413) == "record_too_large"


async def test_the_topic_is_made_on_first_use(client: httpx.AsyncClient) -> None:
    answered = await client.post("/topics/fresh/messages", json={"value": "x"})

    assert answered.status_code == 200
    assert (await client.get("/topics/fresh")).json()["partitionCount"] == 3


async def test_a_name_that_cannot_be_made(client: httpx.AsyncClient) -> None:
    refused = await client.post("/topics/a%20b/messages", json={"value": "x"})

    assert error_code(refused, 422) == "invalid_topic_name"


class TestWithoutAutoCreation:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"auto.create.topics.enable": "false"}

    async def test_an_unknown_topic_stays_unknown(self, client: httpx.AsyncClient) -> None:
        for body in ({"value": "x"}, {"messages": [{"value": "x", "partition": 0}]}):
            refused = await client.post("/topics/fresh/messages", json=body)
            assert error_code(refused, 404) == "unknown_topic"
        assert (await client.get("/topics")).json() == {"topics": []}


async def test_both_ways_to_the_route_answer_alike(client: httpx.AsyncClient, orders: str) -> None:
    """The short way past the framework, and the long way that a trailing slash takes."""
    for body, status in (
        (json.dumps({"value": "x", "partition": 0}), 200),
        ('{"value": "x", "colour": 1}', 400),
        ('{"value": ', 400),
        (json.dumps({"value": "x", "partition": 9}), 422),
    ):
        headers = {"content-type": "application/json"}
        short = await client.post(f"/topics/{orders}/messages", content=body, headers=headers)
        long = await client.post(f"/topics/{orders}/messages/", content=body, headers=headers)
        assert short.status_code == long.status_code == status
        assert short.headers["content-type"] == long.headers["content-type"]
        if status != 200:
            assert short.json() == long.json()
        else:
            assert short.json().keys() == long.json().keys()


async def test_internal_topics_are_not_written(client: httpx.AsyncClient, broker: Node) -> None:
    internal = own_state("__consumer_offsets")
    await broker.topics.ensure_internal(internal, partitions=1, config={})

    refused = await client.post("/topics/__consumer_offsets/messages", json={"value": "x"})

    assert error_code(refused, 403) == "policy_violation"
    assert error_code(await client.delete("/topics/__consumer_offsets"), 403) == "policy_violation"
