"""Apache Kafka's own `kafka-reassign-partitions.sh`, by the class that it starts; three brokers.

Its jars come from where the benchmarks have their peers from.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka import Producer

from bench.artifacts import KAFKA_VERSION, MavenArtifact, find_java, maven_class_path
from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import options_of

TOOLS = MavenArtifact(group="org.apache.kafka", artifact="kafka-tools", version=KAFKA_VERSION)
COMMAND = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPIC = "moved"
WAIT_SECONDS = 120.0
MEGABYTE = 1_000_000
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    with GoQueueCluster(*options_of({"broker.session.timeout.ms": "30000"}), brokers=3) as running:
        yield running


class Tool:
    def __init__(self, cluster: GoQueueCluster, folder: Path) -> None:
        self._bootstrap = cluster.bootstrap_servers
        self._folder = folder

    def __call__(self, *arguments: str, code: int = 0) -> str:
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", maven_class_path(TOOLS))
        done = subprocess.run(
            [find_java(), *options, COMMAND, "--bootstrap-server", self._bootstrap, *arguments],
            capture_output=True,
            text=True,
            timeout=stretched(WAIT_SECONDS),
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def file(self, name: str, content: dict[str, Any]) -> str:
        path = self._folder / name
        path.write_text(json.dumps(content))
        return str(path)

    def wanted(self, *replicas: int) -> str:
        partitions = [{"topic": TOPIC, "partition": 0, "replicas": list(replicas)}]
        return self.file("wanted.json", {"version": 1, "partitions": partitions})


@pytest.fixture
def tool(cluster: GoQueueCluster, tmp_path: Path) -> Tool:
    return Tool(cluster, tmp_path)


@pytest.fixture(autouse=True, scope="module")
def topic(cluster: GoQueueCluster) -> None:
    """On brokers 1 and 2, with some megabytes."""
    ask(cluster, "POST", "/topics", {"name": TOPIC, "partitions": 1, "replicationFactor": 2})
    move = {"topic": TOPIC, "partition": 0, "replicas": [1, 2]}
    ask(cluster, "POST", "/cluster/moves", {"moves": [move]})
    until(lambda: replicas(cluster) == [1, 2])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for _ in range(80):
        producer.produce(TOPIC, bytes(100_000), partition=0)
    assert producer.flush(WAIT_SECONDS) == 0


def ask(cluster: GoQueueCluster, method: str, path: str, body: Any = None) -> Any:
    url = cluster.server(1).http_url + path
    answer = requests.request(method, url, json=body, timeout=WAIT_SECONDS)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def replicas(cluster: GoQueueCluster) -> list[int]:
    """Once nothing moves any more; until then none."""
    [found] = ask(cluster, "GET", f"/cluster/metadata?topic={TOPIC}")["partitions"]
    return [] if ask(cluster, "GET", "/cluster/moves")["moves"] else found["replicas"]


def rates(cluster: GoQueueCluster) -> set[str]:
    """As they are set of brokers while these run."""
    found = set()
    for node in cluster.node_ids:
        settings = ask(cluster, "GET", f"/cluster/settings?node={node}")["settings"]
        found |= {
            each["value"]
            for each in settings
            if each["name"] in RATES and each["source"] == "dynamic_broker"
        }
    return found


def throttled(cluster: GoQueueCluster) -> list[str]:
    config = ask(cluster, "GET", f"/topics/{TOPIC}")["config"]
    return [config[name] for name in REPLICAS if config.get(name)]


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_plan_is_made_and_carried_out(cluster: GoQueueCluster, tool: Tool) -> None:
    topics = tool.file("topics.json", {"version": 1, "topics": [{"topic": TOPIC}]})
    shown = tool("--generate", "--topics-to-move-json-file", topics, "--broker-list", "3,1")
    before, plan = (json.loads(text) for text in re.findall(r"^\{.*\}$", shown, re.MULTILINE))
    assert before["partitions"][0]["replicas"] == [1, 2]
    [planned] = plan["partitions"]
    assert set(planned["replicas"]) == {1, 3}
    plan_file = tool.file("plan.json", plan)
    assert "Successfully started" in tool("--execute", "--reassignment-json-file", plan_file)
    until(lambda: replicas(cluster) == planned["replicas"])
    told = tool("--verify", "--reassignment-json-file", plan_file)
    assert f"Reassignment of partition {TOPIC}-0 is completed" in told
    assert "No partition reassignments found" in tool("--list")


def test_a_throttle_holds_and_goes_when_it_is_verified(cluster: GoQueueCluster, tool: Tool) -> None:
    wanted = tool.wanted(2, 3)
    # Half a megabyte in a second: it takes as long as a look at it and more.
    begun = tool("--execute", "--reassignment-json-file", wanted, "--throttle", "500000")
    assert "The inter-broker throttle limit was set to 500000 B/s" in begun
    assert rates(cluster) == {"500000"}
    assert len(throttled(cluster)) == 2
    assert f"{TOPIC}-0: replicas: " in tool("--list")
    told = tool("--verify", "--reassignment-json-file", wanted)
    assert f"Reassignment of partition {TOPIC}-0 is still in progress" in told
    # The same again with another rate changes the rate alone, as its words say. It is more than a
    # move gets without Kafka's rates.
    more = ("--additional", "--throttle", "50000000")
    again = tool("--execute", "--reassignment-json-file", wanted, *more)
    assert "The inter-broker throttle limit was set to 50000000 B/s" in again
    assert rates(cluster) == {"50000000"}
    until(lambda: replicas(cluster) == [2, 3])
    told = tool("--verify", "--reassignment-json-file", wanted)
    assert f"Reassignment of partition {TOPIC}-0 is completed" in told
    assert "Clearing broker-level throttles" in told
    assert rates(cluster) == set()
    assert throttled(cluster) == []


def test_a_move_is_taken_back(cluster: GoQueueCluster, tool: Tool) -> None:
    before = replicas(cluster)
    wanted = tool.wanted(1)
    ask(cluster, "PATCH", "/cluster/moves", {"isPaused": True})
    tool("--execute", "--reassignment-json-file", wanted, "--throttle", "1000000")
    told = tool("--cancel", "--reassignment-json-file", wanted)
    assert f"Successfully cancelled partition reassignment for: {TOPIC}-0" in told
    assert rates(cluster) == set()
    until(lambda: replicas(cluster) == before)
    assert "None of the specified partition reassignments are active" in tool(
        "--cancel", "--reassignment-json-file", wanted
    )
    ask(cluster, "PATCH", "/cluster/moves", {"isPaused": False})


def test_what_cannot_be_is_refused(tool: Tool) -> None:
    # The tool looks itself for brokers that are not there, and says so with the code 1.
    tool("--execute", "--reassignment-json-file", tool.wanted(1, 9), code=1)
    nothing = tool.file("nothing.json", {"version": 1, "partitions": []})
    tool("--execute", "--reassignment-json-file", nothing, code=1)
