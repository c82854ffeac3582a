"""An etcd that is bytes in memory: the brokers' own store asks it, and nothing goes over a wire.

What is read is decoded from etcd's messages, and what is written is encoded into them, so that both
cost a broker what they cost. gRPC and etcd's own work are left out.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from bench.cluster.scale.imagined import StoredEntry
from goqueue.metadata.etcd import messages
from goqueue.metadata.etcd.client import RANGE, EtcdAddress, EtcdClient, Method
from goqueue.metadata.etcd.store import EtcdStore
from goqueue.model.measuring.histograms import Histogram
from goqueue.state.metadata_image import KeyChange

# As many keys as brokers ask for at once.
_PAGE_KEYS: Final = 1_000


class SilentEtcd(EtcdClient):
    """Answers from its pages, and says yes to every transaction; those are kept."""

    def __init__(self, stored: Iterable[StoredEntry]) -> None:
        self.failure = None
        self.latencies = Histogram()
        self._pages: dict[bytes, bytes] = {}
        self.revision = 0
        # Of each transaction, its bytes and what it wrote.
        self.transactions: list[tuple[int, list[KeyChange]]] = []
        self.keys = 0
        self.key_bytes = 0
        self.value_bytes = 0
        ordered = sorted(stored)
        self.revision = max(entry.revision for entry in ordered)
        self._fill(ordered)

    @property
    def page_bytes(self) -> int:
        """What reading everything brings over the wire."""
        return sum(map(len, self._pages.values()))

    def _fill(self, ordered: list[StoredEntry]) -> None:
        remaining, start = iter(ordered), b"/"
        left = len(ordered)
        while page := list(islice(remaining, _PAGE_KEYS)):
            left -= len(page)
            answer = messages.RangeResponse(
                header=messages.ResponseHeader(revision=self.revision),
                kvs=[_kv(entry) for entry in page],
                more=left > 0,
            )
            self._pages[start] = answer.SerializeToString()
            start = page[-1].key.encode() + b"\0"
            self.keys += len(page)
            self.key_bytes += sum(len(entry.key) for entry in page)
            self.value_bytes += sum(len(entry.value) for entry in page)

    async def call(self, method: Method, request: Any) -> Any:
        if method is RANGE:
            return messages.RangeResponse.FromString(self._pages[request.key])
        self.revision += 1
        written: list[KeyChange] = [
            (op.request_put.key.decode(), op.request_put.value, self.revision)
            for op in request.success
        ]
        self.transactions.append((len(request.SerializeToString()), written))
        header = messages.ResponseHeader(revision=self.revision)
        return messages.TxnResponse(header=header, succeeded=True)

    def store(self) -> EtcdStore:
        return EtcdStore(self, EtcdAddress(endpoints=()))


def watch_bytes(changes: Iterable[KeyChange]) -> int:
    """What telling one broker of a transaction takes."""
    return sum(_event_bytes(changes))


def _event_bytes(changes: Iterable[KeyChange]) -> Iterator[int]:
    for key, value, revision in changes:
        kv = _kv(StoredEntry(key, value or b"", revision))
        event = messages.Event(kv=kv)
        yield messages.WatchResponse(events=[event]).ByteSize()


def _kv(entry: StoredEntry) -> Any:
    return messages.KeyValue(
        key=entry.key.encode(),
        value=entry.value,
        create_revision=entry.revision,
        mod_revision=entry.revision,
        version=1,
    )
