"""What tasks and the driver do for a write, without Spark between them."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from goqueue.client.errors import RequestRefused
from goqueue.client.http_address import find_http_url
from goqueue.client.http_api import HttpApi, HttpRefused
from goqueue.client.log_writer import LogWriter, TransactionLost
from goqueue.client.transaction_group import TransactionGroup
from goqueue.model.partitioner import partition_for_key
from goqueue.model.transactions.group_names import member_id
from goqueue.spark.sink.columns import InvalidRow
from goqueue.spark.sink.options import parse_options, query_group
from goqueue.spark.sink.signs_of_life import signs_of_life
from goqueue.spark.sink.task import TaskWriter
from goqueue.spark.sink.writer import GoQueueStreamWriter, WrittenPart
from goqueue.testing import ServerProcess
from tests.busy_machine import stretched
from tests.spark.committed_reading import read_committed, values_of


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


class Query:
    """A streaming query: its tasks write, then its driver ends the batch."""

    def __init__(self, bootstrap: str, topic: str | None, **options: str) -> None:
        self.group_id = query_group(str(uuid4()))
        given = {"bootstrap.servers": bootstrap, **({"topic": topic} if topic else {}), **options}
        self.options = parse_options(given, is_stream=True)
        self.driver = GoQueueStreamWriter(self.options)

    def task(self, number: int, *batches: pa.RecordBatch, attempt: int = 0) -> WrittenPart:
        name = member_id(self.group_id, f"{number}.{attempt}")
        opened = LogWriter(
            self.options.bootstrap_servers,
            transactional_id=name,
            transaction_timeout_ms=self.options.transaction_timeout_ms,
        )
        with closing(opened) as writer:
            part = TaskWriter(writer, self.options, task=number)
            part.write(batches)
            return WrittenPart(part.row_count, self.group_id, writer.identity)

    def committed(self) -> int | None:
        group = TransactionGroup(
            self.group_id,
            bootstrap_servers=self.options.bootstrap_servers,
            delivery_timeout_ms=1_000,
        )
        return next((n for n in range(9, -1, -1) if group.is_committed(n)), None)


@pytest.fixture
def query(bootstrap: str, make_topic: Callable[..., str]) -> Query:
    return Query(bootstrap, make_topic(partitions=2))


@pytest.fixture
def written(query: Query) -> Callable[[], list[bytes]]:
    return lambda: values_of(query.options.bootstrap_servers, query.options.topic or "")


def test_a_batch_is_seen_when_the_driver_commits(
    query: Query, written: Callable[[], list[bytes]]
) -> None:
    parts = [
        query.task(0, batch(value=["a"]), batch(value=["b"])),
        query.task(1, batch(value=["c"])),
    ]
    query.task(1, batch(value=["from a slower attempt"]), attempt=1)
    assert written() == []
    query.driver.commit([*parts], 0)
    assert written() == [b"a", b"b", b"c"]
    assert query.committed() == 0


def test_a_batch_that_is_run_again_changes_nothing(
    query: Query, written: Callable[[], list[bytes]]
) -> None:
    first = query.task(0, batch(value=["a"]))
    query.driver.commit([first], 0)
    query.driver.commit([first], 0)
    again = query.task(0, batch(value=["a"]))
    query.driver.commit([again], 0)
    query.driver.abort([again, None], 0)
    query.driver.abort([None], 0)
    query.driver.commit([query.task(0, batch(value=["b"]))], 1)
    assert written() == [b"a", b"b"]


def test_a_task_that_was_replaced_cannot_be_committed(
    query: Query, written: Callable[[], list[bytes]]
) -> None:
    other, zombie = query.task(0, batch(value=["a"])), query.task(1, batch(value=["b"]))
    current = query.task(1, batch(value=["b"]))
    with pytest.raises(HttpRefused, match=r"nothing was committed: goqueue\.group/.*/1\.0"):
        query.driver.commit([other, zombie], 0)
    assert written() == []
    query.driver.commit([other, current], 0)
    assert written() == [b"a", b"b"]


def test_an_aborted_batch_leaves_nothing(query: Query, written: Callable[[], list[bytes]]) -> None:
    query.driver.abort([query.task(0, batch(value=["a"])), None], 0)
    query.driver.commit([query.task(0, batch(value=["b"]))], 0)
    assert written() == [b"b"]


def test_a_zombie_is_told_so(query: Query) -> None:
    name = member_id(query.group_id, "0.0")
    bootstrap, topic = query.options.bootstrap_servers, query.options.topic
    with closing(LogWriter(bootstrap, transactional_id=name)) as writer:
        part = TaskWriter(writer, query.options, task=0)
        part.write([batch(value=["a"])])
        query.task(0, batch(value=["b"]))
        with pytest.raises(TransactionLost, match=r"transaction.timeout.ms \(60000\)"):
            part.write([batch(value=["c"])])
    assert topic is not None


def test_keys_go_where_other_clients_send_them(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    query = Query(bootstrap, make_topic(partitions=7))
    keys = [str(number) * (number % 4) for number in range(1_000)]
    query.driver.commit([query.task(0, batch(key=keys, value=keys))], 0)
    found = read_committed(bootstrap, query.options.topic or "")
    assert len(found) == 1_000
    assert all(m.partition() == partition_for_key(m.key() or b"", 7) for m in found)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_name_their_topics(
    bootstrap: str, make_topic: Callable[..., str], compression: str
) -> None:
    topics = make_topic(partitions=2), make_topic()
    query = Query(bootstrap, None, **{"compression.type": compression, "batch.size": "65536"})
    rows = batch(
        topic=[topics[number % 2] for number in range(20_000)],
        value=[str(number) * 20 for number in range(20_000)],
    )
    query.driver.commit([query.task(0, rows)], 0)
    for rest, topic in enumerate(topics):
        expected = sorted(str(number).encode() * 20 for number in range(rest, 20_000, 2))
        assert values_of(bootstrap, topic) == expected


def test_large_records_have_their_own_batch(bootstrap: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(max_message_bytes="20000")
    query = Query(bootstrap, topic, **{"batch.size": "1024"})
    values = ["x" * 19_900, "small", "y" * 15_000]
    query.driver.commit([query.task(0, batch(value=values))], 0)
    assert values_of(bootstrap, topic) == sorted(value.encode() for value in values)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"priority": [9]}, "priority: it is 9 in a row"),
        ({"partition": [5]}, "it is 5 in a row, but topic"),
        ({"partition": [-2]}, "partition: it is negative"),
        ({"headers": [[{"key": None, "value": b""}]]}, "headers: a header has no key"),
    ],
)
def test_bad_rows_are_named(query: Query, columns: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidRow, match=expected):
        query.task(0, batch(value=["a"], **columns))


def test_delays_and_priorities_come_with_the_commit(
    query: Query, written: Callable[[], list[bytes]]
) -> None:
    """Of two attempts of a task one counts, and of an aborted batch nothing."""
    api = HttpApi(find_http_url(query.options.bootstrap_servers))

    def waiting() -> list[str]:
        found = api.get("topics", query.options.topic or "", "delayed")["messages"]
        return sorted(each["value"] for each in found)

    rows = batch(value=["now", "later"], delay=[None, 3_600_000], priority=[0, 4])
    query.task(0, rows)
    query.driver.abort([None], 0)
    parts = [query.task(0, rows), query.task(1, batch(value=["much later"], delay=[7_200_000]))]
    query.task(1, batch(value=["much later"], delay=[7_200_000]), attempt=1)
    assert waiting() == []
    query.driver.commit([*parts], 0)
    query.driver.commit([*parts], 0)
    assert waiting() == ["later", "much later"]
    assert written() == [b"now"]
    found = read_committed(query.options.bootstrap_servers, query.options.topic or "")
    assert found[0].headers() == [("goqueue-priority", b"0")]


def test_a_transaction_must_not_be_open_for_too_long(bootstrap: str, query: Query) -> None:
    name = member_id(query.group_id, "0.0")
    with (
        closing(
            LogWriter(bootstrap, transactional_id=name, transaction_timeout_ms=1_000_000)
        ) as writer,
        pytest.raises(RequestRefused, match=r"the broker's transaction\.max\.timeout\.ms"),
    ):
        TaskWriter(writer, query.options, task=0).write([batch(value=["a"])])


def test_a_missing_topic_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("no-topics")
    with ServerProcess(folder, "--set", "auto.create.topics.enable=false") as server:
        query = Query(server.bootstrap_servers, "absent")
        with pytest.raises(RequestRefused, match="goqueue topics create absent"):
            query.task(0, batch(value=["a"]))


def test_a_decision_outlives_the_broker(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Killed while a task writes, and after the decision."""
    with ServerProcess(tmp_path_factory.mktemp("killed")) as server:
        query = Query(server.bootstrap_servers, "t")
        name = member_id(query.group_id, "0.0")
        with closing(LogWriter(query.options.bootstrap_servers, transactional_id=name)) as writer:
            part = TaskWriter(writer, query.options, task=0)
            part.write([batch(value=["a"])])
            server.sigkill()
            server.restart()
            part.write([batch(value=["b"])])
            first = WrittenPart(2, query.group_id, writer.identity)
        second = query.task(1, batch(value=["c"]))
        query.driver.commit([first, second], 0)
        server.sigkill()
        server.restart()
        assert values_of(server.bootstrap_servers, "t") == [b"a", b"b", b"c"]
        query.driver.commit([first, second], 0)
        assert query.committed() == 0


def open_member_count(query: Query) -> int:
    api = HttpApi(find_http_url(query.options.bootstrap_servers))
    return len(api.get("transactions", "groups", query.group_id)["openMembers"])


def test_what_a_killed_driver_left_is_aborted_soon(
    bootstrap: str, make_topic: Callable[..., str], send: Callable[..., None]
) -> None:
    """While one task is at work nothing of its write times out, however long it takes."""
    topic = make_topic()
    query = Query(bootstrap, topic, **{"transaction.timeout.ms": "2000"})
    query.task(0, batch(value=["left behind"]))
    send(topic, [b"of somebody else"])
    group = TransactionGroup(
        query.group_id, bootstrap_servers=bootstrap, delivery_timeout_ms=10_000
    )
    with signs_of_life(group, query.options.transaction_timeout_ms):
        until = time.monotonic() + 6
        while time.monotonic() < until:
            assert open_member_count(query) == 1
        assert values_of(bootstrap, topic) == []
    deadline = time.monotonic() + stretched(30)
    while open_member_count(query):
        assert time.monotonic() < deadline, "it holds up readers"
    assert values_of(bootstrap, topic) == [b"of somebody else"]
