"""Lists and stories of a whole cluster, asked of each of its brokers, and without one of them."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import bring_back, options_of

WAIT_SECONDS = 120.0
STORY = [
    *("publish.received", "publish.partitioned", "publish.persisted", "publish.replicated"),
    *("consume.fetched", "consume.acked"),
]
# Everything that is gathered from all brokers.
LISTS = (
    *("/topics", "/groups", "/transactions", "/traces", "/rebalance/stats", "/traces/stats"),
    *("/delay/stats", "/reliability/stats", "/priority/stats", "/transactions/stats"),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    settings = {
        "tracing.sampling.rate": "1",
        "num.partitions": "1",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        # Killed processes are noticed without it, and on a busy machine others must not seem so.
        "broker.session.timeout.ms": "60000",
    }
    with GoQueueCluster(*options_of(settings)) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: GoQueueCluster) -> Iterator[None]:
    """Each test begins and ends with all brokers."""
    yield
    bring_back(cluster)


def ask(cluster: GoQueueCluster, node: int, path: str, content: object = None) -> Any:
    url = cluster.server(node).http_url + path
    method = "GET" if content is None else "POST"
    answer = httpx.request(method, url, json=content, timeout=60)
    assert answer.is_success, (node, path, answer.text)
    return answer.json()


def until(is_so: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not (found := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def story(cluster: GoQueueCluster, node: int, topic: str, offset: int = 0) -> Any:
    answer = httpx.get(
        f"{cluster.server(node).http_url}/traces/messages/{topic}/0/{offset}", timeout=60
    )
    return answer.json() if answer.is_success else None


def events(told: Any) -> list[str]:
    return [] if told is None else [span["event"] for span in told["spans"]]


def leader_and_others(cluster: GoQueueCluster, topic: str) -> tuple[int, list[int]]:
    until(lambda: len(cluster.in_sync(topic)) == 3)
    leader = cluster.leader(topic)
    assert leader is not None
    return leader, [node for node in cluster.node_ids if node != leader]


def test_a_message_has_one_story_at_every_broker(cluster: GoQueueCluster) -> None:
    ask(cluster, 1, "/topics", {"name": "orders"})
    leader, (through, reader) = leader_and_others(cluster, "orders")
    url = cluster.server(through).http_url
    published = httpx.post(f"{url}/topics/orders/messages", json={"value": "one"}, timeout=60)
    assert published.is_success, published.text
    trace_id = published.headers["traceparent"].split("-")[1]
    page = ask(cluster, reader, "/topics/orders/partitions/0/messages")
    assert [each["value"] for each in page["messages"]] == ["one"]
    commit = {"offsets": [{"topic": "orders", "partition": 0, "offset": 1}]}
    ask(cluster, reader, "/groups/billing/offsets", commit)
    for node in (leader, through, reader):
        told = until(
            lambda node=node: (
                (  # type: ignore[misc]
                    found := story(cluster, node, "orders")
                )
                and events(found) == STORY
                and found
            )
        )
        assert told["traceId"] == trace_id
        assert told["isComplete"]
        assert "unanswered" not in told
        assert ask(cluster, node, f"/traces/{trace_id}")["spans"] == told["spans"]
        [summary] = ask(cluster, node, "/traces/search?topic=orders")["traces"]
        assert (summary["traceId"], summary["spans"]) == (trace_id, len(STORY))
        drawn = goqueue(cluster, node, "trace", "orders/0/0")
        assert "acknowledged for group billing" in drawn.stdout
        assert not drawn.stderr


def test_a_story_goes_on_under_another_leader(cluster: GoQueueCluster) -> None:
    ask(cluster, 1, "/topics", {"name": "moved"})
    leader, (one, other) = leader_and_others(cluster, "moved")
    ask(cluster, one, "/topics/moved/messages", {"value": "one"})
    trace_id = until(lambda: story(cluster, one, "moved"))["traceId"]
    until(lambda: all_in_files(ask(cluster, one, "/traces/stats")))
    cluster.kill(leader)
    until(lambda: cluster.leader("moved") in (one, other))
    until(lambda: ask(cluster, other, "/topics/moved/partitions/0/messages")["messages"])
    for node in (one, other):
        told = until(lambda node=node: story(cluster, node, "moved"))  # type: ignore[misc]
        assert told["traceId"] == trace_id
        assert set(events(told)) == {"consume.fetched"}
        assert not told["isComplete"]
        assert [each["broker"] for each in told["unanswered"]] == [leader]
    url = f"{cluster.server(one).http_url}/traces/messages/moved/0/99"
    unknown = httpx.get(url, timeout=60)
    assert unknown.status_code == 404
    assert f"did not answer: {leader} (it is down)" in unknown.json()["error"]["message"]
    drawn = goqueue(cluster, one, "trace", "moved/0/0")
    assert f"broker {leader} is left out: it is down" in drawn.stderr
    cluster.restart(leader)
    told = until(
        lambda: (found := story(cluster, one, "moved")) and "unanswered" not in found and found
    )
    assert events(told)[:5] == STORY[:5]
    assert {span["traceId"] for span in told["spans"]} == {trace_id}


def test_lists_name_a_broker_that_does_not_answer(cluster: GoQueueCluster) -> None:
    ask(cluster, 1, "/topics", {"name": "kept", "partitions": 3})
    for node in cluster.node_ids:
        for path in LISTS:
            assert "unanswered" not in ask(cluster, node, path), (node, path)
    # One that stands still is asked in vain, until another takes its place.
    cluster.pause(3)
    try:
        with ThreadPoolExecutor(len(LISTS)) as threads:
            answers = list(threads.map(lambda path: ask(cluster, 1, path), LISTS))
    finally:
        cluster.resume(3)
    for path, answer in zip(LISTS, answers, strict=True):
        [missing] = answer["unanswered"]
        assert missing["broker"] == 3, path
        assert missing["reason"], path
    until(lambda: "unanswered" not in ask(cluster, 1, "/topics"))


def test_lists_name_a_broker_whose_partitions_nobody_leads(cluster: GoQueueCluster) -> None:
    ask(cluster, 1, "/topics", {"name": "alone", "partitions": 3, "replicationFactor": 1})
    cluster.wait_complete()
    cluster.kill(2)
    answer = until(
        lambda: (
            (found := ask(cluster, 1, "/topics"))
            and "nobody leads" in str(found.get("unanswered", ""))
            and found
        )
    )
    assert [each["broker"] for each in answer["unanswered"]] == [2]
    health = ask(cluster, 3, "/cluster/health")
    assert health["status"] == "unavailable"
    assert any("nodes that are down: 2" in reason for reason in health["reasons"])
    nodes = {each["nodeId"]: each["status"] for each in ask(cluster, 1, "/cluster/state")["nodes"]}
    assert nodes == {1: "alive", 2: "dead", 3: "alive"}


def all_in_files(stats: Any) -> bool:
    [files] = [each for each in stats["exporters"] if each["name"] == "file"]
    return bool(files["exported"] == stats["recordedSpans"])


def goqueue(cluster: GoQueueCluster, node: int, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", *words, "--http", cluster.server(node).http_url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
