"""Records for a reader of committed messages, out of batches of several producers."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from goqueue.broker.partitions.committed_records import committed_records
from goqueue.broker.partitions.decoding import BatchDecoder
from goqueue.model.aborted import AbortedTransaction
from goqueue.model.batch import assign
from goqueue.model.control import Marker, MarkerType, encode_marker
from goqueue.model.decoding_bounds import DEFAULT_BOUNDS
from goqueue.model.log import FetchedPart
from goqueue.model.records import NewRecord, encode_records


class Log:
    """Batches one after the other, with their offsets."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._end = 0

    def batch(self, *values: str, producer: int = -1) -> "Log":
        is_transactional = producer >= 0
        encoded = encode_records(
            [NewRecord(value=value.encode()) for value in values],
            now_ms=1,
            is_transactional=is_transactional,
            producer_id=producer,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
        )
        return self._add(encoded, len(values))

    def end(self, kind: MarkerType, producer: int) -> "Log":
        marker = encode_marker(Marker(kind, 0), producer_id=producer, producer_epoch=0, now_ms=1)
        return self._add(marker, 1)

    def _add(self, batch: bytearray, count: int) -> "Log":
        assign(batch, 0, self._end, 0)
        self._data += batch
        self._end += count
        return self

    def fetched(self, *aborted: AbortedTransaction) -> FetchedPart:
        return FetchedPart("t", 0, data=bytes(self._data), aborted=aborted)


def read(
    part: FetchedPart, offset: int = 0, limit: int = 100, max_bytes: int = 1_000_000
) -> tuple[list[str], int]:
    with ThreadPoolExecutor(1) as threads:
        run = asyncio.run(
            committed_records(
                part,
                offset,
                limit=limit,
                max_bytes=max_bytes,
                decoder=BatchDecoder(threads),
                bounds=DEFAULT_BOUNDS,
            )
        )
    return [(record.value or b"").decode() for record in run.records], run.next_offset


def test_aborted_records_and_markers_are_left_out() -> None:
    log = Log().batch("a", producer=1).batch("b", producer=2).batch("c")
    log.end(MarkerType.ABORT, 1).end(MarkerType.COMMIT, 2).batch("d", producer=1)
    log.end(MarkerType.COMMIT, 1)
    assert read(log.fetched(AbortedTransaction(1, 0, 3, 1))) == (["b", "c", "d"], 7)


def test_two_aborted_transactions_of_one_producer() -> None:
    log = Log().batch("a", producer=1).end(MarkerType.ABORT, 1).batch("b", producer=1)
    log.end(MarkerType.COMMIT, 1).batch("c", producer=1).end(MarkerType.ABORT, 1)
    aborted = (AbortedTransaction(1, 4, 5, 6), AbortedTransaction(1, 0, 1, 2))
    assert read(log.fetched(*aborted)) == (["b"], 6)


def test_an_aborted_transaction_that_began_before_the_read() -> None:
    log = Log().batch("a", "b", producer=1).batch("c", producer=1).end(MarkerType.ABORT, 1)
    assert read(log.fetched(AbortedTransaction(1, 0, 3, 4)), offset=1) == ([], 4)


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, 2, (["a", "b"], 2)),
        (1, 2, (["b", "c"], 3)),
        (0, 3, (["a", "b", "c"], 3)),
        (0, 4, (["a", "b", "c", "d"], 4)),
        (4, 4, ([], 4)),
    ],
)
def test_limits_cut_anywhere(offset: int, limit: int, expected: tuple[list[str], int]) -> None:
    log = Log().batch("a", "b", "c").batch("d")
    assert read(log.fetched(), offset, limit) == expected


def test_many_bytes_out_of_one_small_batch_are_read_piece_by_piece() -> None:
    log = Log().batch("a" * 60, "b" * 60, "c" * 60).batch("d")
    assert read(log.fetched(), max_bytes=100) == (["a" * 60, "b" * 60], 2)
    assert read(log.fetched(), offset=2, max_bytes=100) == (["c" * 60, "d"], 4)
