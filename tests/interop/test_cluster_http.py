"""HTTP at any broker of a cluster, while brokers are killed."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import requests
from confluent_kafka.admin import AdminClient
from crc32c import crc32c

from goqueue.client.transaction_group import TransactionGroup
from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.interop.own_cluster import bring_back, options_of

WAIT_SECONDS = 120.0
PARTITIONS = 3
STATE_TOPIC = "__transaction_state"


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    settings = {
        # Few: making and electing dozens takes longer than the tests.
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        # Killed processes are noticed without it, and on a busy machine others must not seem so.
        "broker.session.timeout.ms": "30000",
    }
    with GoQueueCluster(*options_of(settings)) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: GoQueueCluster) -> Iterator[None]:
    """Each test begins and ends with all brokers."""
    yield
    bring_back(cluster)


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + stretched(WAIT_SECONDS)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Client:
    """Speaks to one broker after the other, and again while it is told to."""

    def __init__(self, cluster: GoQueueCluster, first: int = 0) -> None:
        self._cluster = cluster
        self._turn = itertools.count(first)
        self._session = requests.Session()

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> requests.Response:
        """Whatever is asked here may be asked twice."""
        deadline = time.monotonic() + stretched(WAIT_SECONDS)
        while True:
            running = self._cluster.running
            url = self._cluster.server(running[next(self._turn) % len(running)]).http_url
            try:
                answer = self._session.request(
                    method, url + path, json=body, params=query, timeout=WAIT_SECONDS
                )
            except requests.ConnectionError:
                answer = None
            if answer is not None and answer.status_code != 503:
                return answer
            assert time.monotonic() < deadline, "nobody answers" if answer is None else answer.text
            time.sleep(0.05)

    def once(self, method: str, path: str, body: Any) -> int:
        """What must not be asked twice: the status, or 0 if it is not known."""
        running = self._cluster.running
        url = self._cluster.server(running[next(self._turn) % len(running)]).http_url
        try:
            return self._session.request(
                method, url + path, json=body, timeout=WAIT_SECONDS
            ).status_code
        except requests.ConnectionError:
            return 0

    def done(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = self.ask(method, path, body, **query)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None


def make_topic(cluster: GoQueueCluster, name: str, partitions: int = PARTITIONS) -> None:
    Client(cluster).done("POST", "/topics", {"name": name, "partitions": partitions})
    until(
        lambda: all(
            len(cluster.in_sync(name, index)) == len(cluster.running) for index in range(partitions)
        )
    )


def publish(cluster: GoQueueCluster, topic: str, numbers: range) -> None:
    messages = [{"value": str(n), "partition": n % PARTITIONS} for n in numbers]
    Client(cluster).done("POST", f"/topics/{topic}/messages", {"messages": messages})


def test_a_broker_that_leads_nothing_reads_everything(cluster: GoQueueCluster) -> None:
    make_topic(cluster, "read", 1)
    publish_one = {"messages": [{"value": str(n)} for n in range(5)]}
    Client(cluster).done("POST", "/topics/read/messages", publish_one)
    leader = cluster.leader("read")
    for node in cluster.running:
        url = f"{cluster.server(node).http_url}/topics/read"
        page = requests.get(f"{url}/partitions/0/messages", {"offset": 3}, timeout=60).json()
        assert [each["value"] for each in page["messages"]] == ["3", "4"]
        since = page["messages"][0]["timestamp"]
        timed = requests.get(f"{url}/partitions/0/messages", {"timestamp": since}, timeout=60)
        assert timed.json()["messages"][-1]["value"] == "4"
        assert requests.get(f"{url}/partitions/0/count", timeout=60).json()["count"] == 5
        [described] = requests.get(url, timeout=60).json()["partitions"]
        assert (described["leader"], described["highWatermark"]) == (leader, 5)
        refused = requests.get(f"{url}/partitions/0/messages", {"offset": 99}, timeout=60)
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            416,
            "offset_out_of_range",
        )


def test_a_long_poll_outlives_the_leader_that_it_waits_at(cluster: GoQueueCluster) -> None:
    make_topic(cluster, "waited", 1)
    leader = cluster.leader("waited")
    assert leader is not None
    [other, *_] = [node for node in cluster.running if node != leader]
    found: list[Any] = []
    url = f"{cluster.server(other).http_url}/topics/waited/partitions/0/messages"

    def wait() -> None:
        found.append(requests.get(url, {"offset": 0, "maxWait": 30_000}, timeout=60).json())

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.5)
    cluster.kill(leader)
    Client(cluster).done("POST", "/topics/waited/messages", {"value": "late"})
    waiting.join(stretched(60))
    assert [each["value"] for each in found[0]["messages"]] == ["late"]


class Member(threading.Thread):
    """As docs/groups.md shows it."""

    def __init__(self, cluster: GoQueueCluster, group: str, topic: str, first: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(cluster, first)
        self._group = f"/groups/{group}"
        self._join = {"topics": [topic], "offsetReset": "earliest", "sessionTimeoutMs": 10_000}
        self.got: Counter[str] = Counter()
        self.sessions = 0
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            self.failure = error

    def _read(self) -> None:
        member = self._joined()
        after = member["answer"]
        while not self.stopping.is_set():
            name = member["memberId"]
            asked = {"memberId": name, "after": after, "timeout": 300, "max": 20}
            answer = self._client.ask("POST", f"{self._group}/receive", asked)
            if answer.status_code == 409:
                self._client.ask("POST", f"{self._group}/offsets", {"memberId": name})
                code = answer.json()["error"]["code"]
                member = self._joined(name if code == "rebalance_in_progress" else None)
                after = member["answer"]
                continue
            assert answer.status_code == 200, answer.text
            told = answer.json()
            after = told["answer"]
            self.got.update(each["value"] for each in told["messages"])
            self._client.ask("POST", f"{self._group}/offsets", {"memberId": name, "after": after})
        self._client.ask("POST", f"{self._group}/leave", {"memberId": member["memberId"]})

    def _joined(self, name: str | None = None) -> Any:
        self.sessions += name is None
        asked = self._join if name is None else {**self._join, "memberId": name}
        while True:
            answer = self._client.ask("POST", f"{self._group}/join", asked)
            if answer.status_code == 200:
                return answer.json()
            assert answer.status_code == 409, answer.text
            asked = self._join


def until_in_sync(cluster: GoQueueCluster, *topics: str) -> None:
    until(
        lambda: all(
            len(cluster.in_sync(topic, index)) == len(cluster.running)
            for topic in topics
            for index in range(PARTITIONS)
        )
    )


def coordinator_of(cluster: GoQueueCluster, group: str) -> int:
    """As Kafka's clients are told."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    described = admin.describe_consumer_groups([group])[group].result(60)
    return int(described.coordinator.id)


class OffsetWatch(threading.Thread):
    """Looks at a group's offsets, again and again, through one broker after the other."""

    def __init__(self, cluster: GoQueueCluster, group: str) -> None:
        super().__init__(daemon=True)
        self._client = Client(cluster, 2)
        self._path = f"/groups/{group}/offsets"
        self.stopping = threading.Event()
        self.latest: dict[int, int] = {}
        self.steps_back: list[tuple[int, int, int]] = []

    def run(self) -> None:
        # Without a pause it would take a core from the brokers. An offset that went back stays so
        # until the group reads on, which takes it longer.
        while not self.stopping.wait(0.02):
            answer = self._client.ask("GET", self._path)
            for each in answer.json()["offsets"] if answer.status_code == 200 else ():
                index, offset = each["partition"], each["committedOffset"]
                if offset is None:
                    continue
                if offset < self.latest.get(index, 0):
                    self.steps_back.append((index, self.latest[index], offset))
                self.latest[index] = offset


def test_members_at_different_brokers_outlive_their_coordinator(cluster: GoQueueCluster) -> None:
    make_topic(cluster, "shared")
    members = [Member(cluster, "readers", "shared", first) for first in range(2)]
    watch = OffsetWatch(cluster, "readers")
    for thread in (*members, watch):
        thread.start()
    sent = 0

    def got() -> set[str]:
        return {value for member in members for value in list(member.got)}

    def send(times: int) -> None:
        nonlocal sent
        for _ in range(times):
            publish(cluster, "shared", range(sent, sent + 30))
            sent += 30

    for _ in range(2):
        until_in_sync(cluster, "shared", "__consumer_offsets")
        send(5)
        until(lambda: len(got()) >= sent - 60)
        killed = coordinator_of(cluster, "readers")
        cluster.kill(killed)
        send(1)
        until(lambda: len(got()) == sent)
        cluster.restart(killed)
        cluster.wait_complete()
    watch.stopping.set()
    for member in members:
        member.stopping.set()
    for thread in (*members, watch):
        thread.join(stretched(60))
    assert [member.failure for member in members] == [None, None]
    assert sum(member.sessions for member in members) >= 4
    assert watch.steps_back == []
    assert sum(watch.latest.values()) > sent - 30
    listed = Client(cluster).done("GET", "/groups")
    assert "readers" in [each["group"] for each in listed["groups"]]


class Shop:
    """Transactions over HTTP, each step through another broker; what fails is done again."""

    def __init__(self, cluster: GoQueueCluster, transactional_id: str, topic: str) -> None:
        self._client = Client(cluster)
        self._id = {"transactionalId": transactional_id}
        self._topic = topic
        self.tries = 0

    def store(self, numbers: range, meanwhile: Callable[[], None] = lambda: None) -> None:
        """One transaction over all partitions; `meanwhile` happens before it is committed."""
        while True:
            self.tries += 1
            made = self._client.done("POST", "/producers/init", self._id)
            if self._committed({**self._id, **made}, numbers, meanwhile):
                return
            meanwhile = _nothing

    def _committed(self, producer: Any, numbers: range, meanwhile: Callable[[], None]) -> bool:
        begun = self._client.ask("POST", "/transactions/begin", producer)
        if begun.status_code != 200:
            return False
        messages = [{"value": str(n), "partition": n % PARTITIONS} for n in numbers]
        body = {**producer, "topic": self._topic, "messages": messages}
        # Without a sequence it must not be sent twice.
        if self._client.once("POST", "/transactions/publish", body) != 200:
            return False
        meanwhile()
        ended = self._client.ask("POST", "/transactions/commit", producer)
        assert ended.status_code in (200, 409), ended.text
        return ended.status_code == 200


def _nothing() -> None:
    pass


def all_values(cluster: GoQueueCluster, topic: str) -> Counter[str]:
    client = Client(cluster)
    found: Counter[str] = Counter()
    for index in range(PARTITIONS):
        offset = 0
        while True:
            page = client.done("GET", f"/topics/{topic}/partitions/{index}/messages", offset=offset)
            found.update(each["value"] for each in page["messages"])
            if page["nextOffset"] == offset:
                break
            offset = page["nextOffset"]
    return found


def kill_transaction_coordinator(cluster: GoQueueCluster, key: str) -> int:
    index = crc32c(key.encode()) % PARTITIONS
    until_in_sync(cluster, STATE_TOPIC)
    coordinator = cluster.leader(STATE_TOPIC, index)
    assert coordinator is not None
    cluster.kill(coordinator)
    return coordinator


def _kill_noted(cluster: GoQueueCluster, killed: list[int]) -> None:
    killed.append(kill_transaction_coordinator(cluster, "shop"))


def test_transactions_go_through_all_brokers_and_outlive_them(cluster: GoQueueCluster) -> None:
    make_topic(cluster, "sold")
    shop = Shop(cluster, "shop", "sold")
    sent = 0
    for number in range(9):
        killed: list[int] = []
        meanwhile = _nothing
        if number % 3 == 1:
            until_in_sync(cluster, "sold")
            meanwhile = partial(_kill_noted, cluster, killed)
        shop.store(range(sent, sent + 30), meanwhile)
        sent += 30
        for node in killed:
            cluster.restart(node)
            cluster.wait_complete()
    assert all_values(cluster, "sold") == Counter(str(number) for number in range(sent))


def test_transactions_that_end_together_outlive_their_coordinator(cluster: GoQueueCluster) -> None:
    make_topic(cluster, "grouped")
    client = Client(cluster)
    for sequence in range(3):
        members = []
        for name in ("a", "b"):
            asked = {"transactionalId": f"goqueue.group/query/{name}{sequence}"}
            member = {**asked, **client.done("POST", "/producers/init", asked)}
            client.done("POST", "/transactions/begin", member)
            messages = [
                {"value": f"{sequence}{name}{n}", "partition": n} for n in range(PARTITIONS)
            ]
            body = {**member, "topic": "grouped", "messages": messages}
            assert client.once("POST", "/transactions/publish", body) == 200
            members.append(member)
        if sequence == 1:
            until_in_sync(cluster, "grouped")
            kill_transaction_coordinator(cluster, "goqueue.group/query")
        client.done("POST", "/transactions/groups/query/renew")
        ended = client.done(
            "POST",
            "/transactions/groups/query/commit",
            {"sequence": sequence, "members": members},
        )
        assert ended["outcome"] in ("committed", "alreadyCommitted")
        told = client.done("GET", "/transactions/groups/query")
        assert (told["lastCommitted"], told["openMembers"]) == (sequence, [])
    wanted = (f"{s}{name}{n}" for s in range(3) for name in "ab" for n in range(PARTITIONS))
    assert all_values(cluster, "grouped") == Counter(wanted)
    listed = client.done("GET", "/transactions", pattern="goqueue.group/query/.*")
    assert listed["total"] == 6


def test_who_ends_transactions_together_finds_a_broker_that_is_there(
    cluster: GoQueueCluster,
) -> None:
    first = TransactionGroup(
        "found", bootstrap_servers=cluster.bootstrap_servers, delivery_timeout_ms=60_000
    )
    first.renew()
    named = TransactionGroup(
        "found",
        bootstrap_servers=cluster.bootstrap_servers,
        http_url=cluster.server(1).http_url,
        delivery_timeout_ms=60_000,
    )
    until_in_sync(cluster, STATE_TOPIC)
    # The one that it knows best, and that it was told.
    cluster.kill(1)
    for group in (first, named):
        group.renew()
    assert first.commit(7, [])
    assert not named.commit(7, [])
    assert named.is_committed(7)
