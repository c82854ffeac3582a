"""A message followed by real clients through a real broker: Kafka, HTTP, the CLI, OTLP."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from tests.interop.servers import NewServer, Server

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
RECEIVER = Path(__file__).with_name("otlp_receiver.py")
PATIENCE_S = 60
SETTINGS = (
    *("--set", "num.partitions=1", "--set", "topic.queue.max.deliveries=2"),
    *("--set", "topic.queue.retry.backoff.ms=50"),
)
# What happened to the message, as the broker tells it.
STORY = [
    *("publish.received", "publish.partitioned", "publish.persisted", "publish.replicated"),
    *("consume.fetched", "consume.nacked", "consume.fetched", "consume.nacked", "dlq.routed"),
    *("consume.fetched", "dlq.redriven", "consume.acked", "consume.fetched", "consume.acked"),
]


def eventually(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def otlp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a receiver in a process of its own, and what it got."""
    got = tmp_path_factory.mktemp("otlp") / "spans.jsonl"
    with (
        got.open("wb") as output,
        subprocess.Popen(
            [sys.executable, str(RECEIVER)], stdout=output, stderr=subprocess.DEVNULL
        ) as process,
    ):
        port = eventually(lambda: got.read_text().partition("\n")[0])
        yield f"http://127.0.0.1:{port}/v1/traces", got
        process.terminate()


@pytest.fixture(scope="module")
def server(new_server: NewServer, data_dir: Path, otlp: tuple[str, Path]) -> Iterator[Server]:
    endpoint = ("--set", f"tracing.otlp.endpoint={otlp[0]}")
    with new_server(data_dir, *SETTINGS, *endpoint) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.http_url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def story(server: Server, http: httpx.Client) -> list[dict[str, Any]]:
    """Published over Kafka, failed twice, dead, sent back, and done with in the end."""
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "client.id": "shop"})
    producer.produce("orders", b"one", headers=[("traceparent", TRACEPARENT)])
    producer.flush(10)
    for _ in range(2):
        settle(http, "nack")
    eventually(lambda: http.get("/topics/orders/dlq").json()["deadLetters"])
    assert http.post("/topics/orders/dlq/redrive", json={}).json()["sentBack"] == 1
    settle(http, "ack")
    return spans(http.get(f"/traces/{TRACE}"))


def trace_files(data_dir: Path) -> list[Path]:
    """Of a node, or of all nodes of a cluster."""
    return [*data_dir.glob("traces/*"), *data_dir.glob("node-*/traces/*")]


def settle(http: httpx.Client, action: str) -> None:
    query: dict[str, str | int] = {"topic": "orders", "max": 1, "timeout": 5_000}
    [message] = http.get("/groups/workers/poll", params=query).json()["messages"]
    body = {"group": "workers", "receipts": [message["receipt"]]}
    [result] = http.post(f"/messages/{action}", json=body).json()["results"]
    assert result["error"] is None


def spans(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["spans"]
    return found


def goqueue(server: Server, *arguments: str) -> str:
    command = [sys.executable, "-m", "goqueue", *arguments, "--http", server.http_url]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_journey_through_retries_dead_letters_and_back(
    story: list[dict[str, Any]], http: httpx.Client
) -> None:
    assert [span["event"] for span in story] == STORY
    assert story[0]["consumer"] == "shop"
    assert story[0]["parentId"] == PARENT
    assert story[8]["reason"] == "max_deliveries"
    for place in ("orders/0/0", "orders.dlq/0/0", "orders/0/1"):
        assert spans(http.get(f"/traces/messages/{place}")) == story


def test_consumers_by_offset_are_part_of_it(
    story: list[dict[str, Any]], server: Server, http: httpx.Client
) -> None:
    settings = {"group.id": "audit", "client.id": "auditor", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, **settings})
    consumer.subscribe(["orders"])
    got = 0
    deadline = time.monotonic() + PATIENCE_S
    while got < 2 and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        got += message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()

    def told_later() -> list[dict[str, Any]] | None:
        """The leader of the partition hears of the commit from the group's coordinator."""
        found = spans(http.get(f"/traces/{TRACE}"))[len(story) :]
        return found if len(found) >= 4 else None

    late = eventually(told_later)
    assert {(span["event"], span["offset"]) for span in late} == {
        *(("consume.fetched", 0), ("consume.fetched", 1)),
        *(("consume.acked", 0), ("consume.acked", 1)),
    }
    assert {span["consumer"] for span in late if span["event"] == "consume.fetched"} == {"auditor"}
    assert {span["group"] for span in late if span["event"] == "consume.acked"} == {"audit"}


def test_a_receiver_of_otlp_gets_the_same_spans(
    story: list[dict[str, Any]], otlp: tuple[str, Path]
) -> None:
    def received() -> dict[str, Any] | None:
        lines = otlp[1].read_text().splitlines()[1:]
        got = {span["span"]: span for span in map(json.loads, lines)}
        return got if len(got) >= len(story) else None

    got = eventually(received)
    for span in story:
        sent = got[span["spanId"]]
        assert (sent["name"], sent["trace"]) == (span["event"], TRACE)
        assert sent["parent"] == span["parentId"]
        assert sent["start"] == span["timeUs"] * 1_000
        assert sent["end"] - sent["start"] == span.get("durationUs", 0) * 1_000
        assert sent["status"] == (2 if span.get("status") == "failed" else 0)
        assert sent["attributes"]["messaging.destination.name"] == span["topic"]
        assert (sent["path"], sent["service"]) == ("/v1/traces", "goqueue")


def test_the_command_draws_the_journey(story: list[dict[str, Any]], server: Server) -> None:
    drawn = goqueue(server, "trace", "orders/0/0")
    assert drawn.splitlines()[0].startswith(f"trace {TRACE}")
    steps = (
        *("published by shop", "delivered to http of group workers (delivery 1)"),
        *("nacked by http of group workers (delivery 1)", "(delivery 2)"),
        *("to the dead letters", "→ orders.dlq/0/0 — max_deliveries"),
        *("sent back from the dead letters", "→ orders/0/1", "acknowledged by http"),
    )
    position = 0
    for step in steps:
        position = drawn.index(step, position)
    document = json.loads(goqueue(server, "trace", TRACEPARENT, "-o", "json"))
    assert [span["event"] for span in document["spans"]][: len(STORY)] == STORY
    listed = goqueue(server, "trace", "--failed", "--topic", "orders", "--from", "1h ago")
    assert TRACE in listed
    assert "orders/0/0" in listed


def test_a_killed_broker_leaves_its_traces_and_a_torn_line_does_no_harm(
    story: list[dict[str, Any]], server: Server, data_dir: Path, http: httpx.Client
) -> None:
    last = story[-1]["spanId"].encode()

    def with_the_last() -> list[Path]:
        return [path for path in trace_files(data_dir) if last in path.read_bytes()]

    [path] = eventually(with_the_last)
    server.sigkill()
    with path.open("ab") as file:
        file.write(b'{"traceId":"0af7651916')
    server.start()
    assert spans(http.get(f"/traces/{TRACE}"))[: len(story)] == story
    # What goes on after the restart belongs to the same trace.
    assert http.get("/topics/orders/partitions/0/messages?limit=1").status_code == 200
    eventually(lambda: len(spans(http.get(f"/traces/{TRACE}"))) > len(story))
    lines = eventually(lambda: path.read_bytes().splitlines())
    assert sum(line == b'{"traceId":"0af7651916' for line in lines) == 1
    assert "Traceback" not in server.log_text


def test_files_are_rotated_and_removed(new_server: NewServer, tmp_path: Path) -> None:
    limits = (
        *("--set", "tracing.sampling.rate=1", "--set", "tracing.file.max.bytes=2000"),
        *("--set", "tracing.file.max.files=3", "--set", "num.partitions=1"),
        *("--set", "tracing.ring.spans=1", "--set", "tracing.console.enabled=true"),
    )
    with new_server(tmp_path, *limits) as running:
        url = running.http_url

        def number_of_newest() -> int:
            httpx.post(f"{url}/topics/t/messages", json={"value": "v"}).raise_for_status()
            # All of it goes to the leader of the one partition.
            names = sorted(path.name for path in trace_files(tmp_path))
            assert len(names) <= 4
            return int(names[-1][6:-6]) if names else 0

        eventually(lambda: number_of_newest() > 5)
        eventually(lambda: httpx.get(f"{url}/traces/stats").json()["fileCount"] <= 3)
        found = httpx.get(f"{url}/traces").json()["traces"]
        # Far more than the one span that the ring holds.
        assert len(found) > 3
        assert '"event":"publish.received"' in running.log_text
