"""By what a stream's writer knows the batch that it writes."""

from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from goqueue.client.transaction_group import TransactionGroup
from goqueue.model.errors import GoQueueError
from goqueue.spark.writer import GoQueueStreamWriter
from goqueue.spark.writer_options import parse_options

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
