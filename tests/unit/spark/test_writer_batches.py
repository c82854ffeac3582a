"""By what a stream's writer knows the batch that it writes."""

from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from goqueue.client.transaction_group import TransactionGroup
from goqueue.model.errors import GoQueueError
from goqueue.spark.sink.options import parse_options
from goqueue.spark.sink.writer import GoQueueBatchWriter, GoQueueStreamWriter

OPTIONS = {"bootstrap.servers": "127.0.0.1:1", "topic": "orders"}


@pytest.mark.parametrize(
    "known",
    [{}, {"sql.streaming.queryId": "q"}, {"streaming.sql.batchId": "7"}],
    ids=["nothing", "no batch", "no query"],
)
def test_rows_of_an_unknown_batch_are_refused(
    known: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for an earlier batch of the query, they would be left out as written already."""
    task = SimpleNamespace(getLocalProperty=known.get)
    monkeypatch.setattr(TaskContext, "get", lambda: task)
    monkeypatch.setattr(TransactionGroup, "is_committed", lambda _, sequence: sequence <= 41)
    writer = GoQueueStreamWriter(parse_options(OPTIONS, is_stream=True))
    with pytest.raises(GoQueueError, match="at-least-once"):
        writer.write(iter(()))


def test_writes_under_one_id_are_counted_in_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    committed: dict[str, int] = {}

    def commit(group: TransactionGroup, sequence: int, *_: object, **__: object) -> None:
        committed[group.group_id] = sequence

    def is_committed(group: TransactionGroup, sequence: int) -> bool:
        return sequence <= committed.get(group.group_id, -1)

    monkeypatch.setattr(TransactionGroup, "commit", commit)
    monkeypatch.setattr(TransactionGroup, "is_committed", is_committed)
    for sequence in ("0", "1", "2"):
        known = {"transaction.id": "query", "transaction.sequence": sequence}
        for _ in range(2):  # the second time it has nothing to do
            writer = GoQueueBatchWriter(parse_options({**OPTIONS, **known}, is_stream=False))
            writer.commit([])
        assert writer.write(iter(())).member is None
    assert committed == {"spark-write.query": 2}
