"""Health, readiness, metrics, the API document and its page."""

import re
from errno import EIO
from pathlib import Path

import httpx
import msgspec
import pytest
from litestar import get

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.doors.http.app import ROUTES, check_needs
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService
from goqueue.testing.faulty_disk import FaultyDisk
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio


async def test_health_and_front_page(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    page = (await client.get("/")).json()
    assert page["name"] == "GoQueue"
    for link in page["links"].values():
        assert (await client.get(link)).status_code == 200


def test_every_route_must_say_what_it_needs() -> None:
    @get("/secret")
    async def secret() -> None: ...

    check_needs(ROUTES)
    with pytest.raises(TypeError, match="secret"):
        check_needs([*ROUTES, secret])


async def test_head_is_get_without_a_body(client: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/readyz", "/topics", "/docs"):
        head, get = await client.head(path), await client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(get.content))
    assert (await client.head("/nowhere")).status_code == 404


async def test_ready_only_after_the_announcement(broker: Node, door: HttpDoor) -> None:
    host, port = await door.start()
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", verify=False) as client:
        early = await client.get("/readyz")
        assert error_code(early, 503) == "not_ready"
        assert early.headers["retry-after"]
        await broker.announce(host, 9092, port)
        assert (await client.get("/readyz")).json() == {
            "status": "ready",
            "nodeId": 0,
            "clusterId": broker.cluster_id,
            "offlinePartitionCount": 0,
            "offlinePartitions": [],
        }


async def test_an_announcement_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    config = broker_config({"data.dir": str(tmp_path), "http.port": "0"})
    for _ in range(2):
        broker = await Node.open(config)
        door = HttpDoor(BrokerService(broker), config)
        host, port = await door.start()
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", verify=False) as client:
            assert (await client.get("/readyz")).status_code == 503
            await broker.announce(host, 9092, port)
            assert (await client.get("/readyz")).status_code == 200
        await door.stop()
        await broker.close()


async def test_an_offline_partition_is_told_and_others_go_on(
    client: httpx.AsyncClient, disk: FaultyDisk, orders: str
) -> None:
    await client.patch(f"/topics/{orders}", json={"config": {"fsync.policy": "always"}})
    disk.inject("fdatasync", EIO, path_contains=f"/{orders}-1/")

    refused = await client.post(f"/topics/{orders}/messages", json={"value": "", "partition": 1})

    assert error_code(refused, 503) == "partition_offline"
    reason = error_message(refused)
    assert "Input/output error" in reason
    path = f"/topics/{orders}/partitions/1/messages"
    assert error_code(await client.get(path), 503) == "partition_offline"
    served = await client.post(f"/topics/{orders}/messages", json={"value": "", "partition": 0})
    assert served.status_code == 200
    ready = await client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["offlinePartitionCount"] == 1
    assert ready.json()["offlinePartitions"] == [
        {"topic": orders, "partition": 1, "reason": reason}
    ]
    [_, partition] = (await client.get(f"/topics/{orders}")).json()["partitions"]
    assert partition["offlineReason"] == reason
    assert "\ngoqueue_offline_partitions 1.0\n" in (await client.get("/metrics")).text


async def test_a_request_that_fails_in_part_says_how_much_was_stored(
    client: httpx.AsyncClient, disk: FaultyDisk, orders: str
) -> None:
    await client.patch(f"/topics/{orders}", json={"config": {"fsync.policy": "always"}})
    disk.inject("fdatasync", EIO, path_contains=f"/{orders}-1/")
    messages = [{"value": "", "partition": partition} for partition in (0, 1, 0)]

    refused = await client.post(f"/topics/{orders}/messages", json={"messages": messages})

    assert error_code(refused, 503) == "partition_offline"
    assert "2 of 3 messages were stored" in error_message(refused)


async def test_the_document_names_every_route(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    operations = {(method, path) for path, item in document["paths"].items() for method in item}
    assert operations >= {
        ("get", "/"),
        ("get", "/docs"),
        ("get", "/healthz"),
        ("get", "/metrics"),
        ("get", "/openapi.json"),
        ("get", "/readyz"),
        ("get", "/topics"),
        ("post", "/topics"),
        ("get", "/topics/{name}"),
        ("patch", "/topics/{name}"),
        ("delete", "/topics/{name}"),
        ("post", "/topics/{name}/messages"),
        ("get", "/topics/{name}/partitions/{partition}/messages"),
        ("get", "/topics/{name}/partitions/{partition}/count"),
    }
    for path, method in ((path, method) for method, path in operations):
        for status, answer in document["paths"][path][method]["responses"].items():
            if int(status) >= 400:
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorBody"}


async def test_the_document_says_what_is_enforced(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]

    referenced = set(
        re.findall(r"#/components/schemas/(\w+)", msgspec.json.encode(document).decode())
    )
    assert referenced == set(schemas)
    for name in ("CreateTopic", "AlterTopic", "NewMessage", "NewMessages", "NamedHeader"):
        assert schemas[name]["additionalProperties"] is False
    assert schemas["NewMessage"]["required"] == ["value"]
    partition = schemas["NewMessage"]["properties"]["partition"]["anyOf"][0]
    assert partition == {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
    assert "retention.ms" in schemas["CreateTopic"]["properties"]["config"]["properties"]


async def test_the_page_loads_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")

    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page.text)
    assert not re.search(r"https?://", page.text)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
