"""`EtcdStore`: the metadata of a cluster, in etcd."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from goqueue.metadata.etcd import messages
from goqueue.metadata.etcd.client import (
    LEASE_GRANT,
    LEASE_KEEP_ALIVE,
    LEASE_REVOKE,
    RANGE,
    STATUS,
    TXN,
    EtcdAddress,
    EtcdClient,
)
from goqueue.metadata.etcd.lease_keeper import LeaseKeeper
from goqueue.metadata.etcd.watching import EtcdWatch
from goqueue.metadata.store import (
    Compare,
    CompareOp,
    CompareTarget,
    Delete,
    DeletePrefix,
    Get,
    GetPrefix,
    KeyValue,
    LeaseId,
    MetadataStore,
    Op,
    Put,
    Read,
    TxnResult,
)
from goqueue.model.errors import InvalidRequest, LeaseNotFound
from goqueue.model.measuring.histograms import Histogram

logger = logging.getLogger(__name__)

# etcd's `--max-txn-ops`: of compares, operations on success, operations on failure, the most.
OPERATIONS_MAX: Final = 128

# A page of 1,000 partitions is some 300 KB; etcd's members answer nothing else while they send it.
_PAGE_KEYS: Final = 1_000

_RESULTS: Final = {
    CompareOp.EQUAL: 0,
    CompareOp.GREATER: 1,
    CompareOp.LESS: 2,
    CompareOp.NOT_EQUAL: 3,
}
_TARGETS: Final = {
    CompareTarget.VERSION: 0,
    CompareTarget.CREATE_REVISION: 1,
    CompareTarget.MOD_REVISION: 2,
    CompareTarget.VALUE: 3,
}

# Before these, watches could miss events around a compaction.
_SAFE_VERSIONS: Final = {(3, 4): 31, (3, 5): 13}


class EtcdStore(MetadataStore):
    """Make one with `open`, which asks nothing yet: etcd may come later."""

    def __init__(self, client: EtcdClient, address: EtcdAddress) -> None:
        self._client = client
        self._address = address
        self._prefix = address.prefix
        self._watches: set[EtcdWatch] = set()

    @classmethod
    async def open(cls, address: EtcdAddress) -> Self:
        return cls(EtcdClient(address), address)

    async def close(self) -> None:
        for watch in tuple(self._watches):
            await watch.aclose()
        await self._client.close()

    @property
    def unavailable_reason(self) -> str | None:
        return self._client.failure

    @property
    def latencies(self) -> Histogram:
        return self._client.latencies

    async def version(self) -> str:
        """etcd's version; a warning is logged for one whose watches are known to miss events."""
        version: str = (await self._client.call(STATUS, messages.StatusRequest())).version
        major, minor, patch = (int(part) for part in version.split("-")[0].split("."))
        if patch < _SAFE_VERSIONS.get((major, minor), 0):
            logger.warning(
                "etcd %s can lose events of watches around a compaction; use %d.%d.%d or later",
                version,
                major,
                minor,
                _SAFE_VERSIONS[major, minor],
            )
        return version

    # --- keys -----------------------------------------------------------------------------

    async def get(self, key: str) -> Read:
        answer = await self._client.call(RANGE, messages.RangeRequest(key=self._full(key)))
        return Read(self._kvs(answer.kvs), answer.header.revision)

    async def get_prefix(self, prefix: str) -> Read:
        """All pages show the same revision."""
        start, end = self._range(prefix)
        found: list[KeyValue] = []
        revision = 0
        while True:
            answer = await self._client.call(
                RANGE,
                messages.RangeRequest(
                    key=start, range_end=end, limit=_PAGE_KEYS, revision=revision
                ),
            )
            revision = revision or answer.header.revision
            found.extend(self._kvs(answer.kvs))
            if not answer.more:
                return Read(tuple(found), revision)
            start = answer.kvs[-1].key + b"\0"

    async def transact(
        self,
        compares: Sequence[Compare],
        success_ops: Sequence[Op],
        failure_ops: Sequence[Op] = (),
    ) -> TxnResult:
        largest = max(len(compares), len(success_ops), len(failure_ops))
        if largest > OPERATIONS_MAX:
            raise InvalidRequest(
                f"transaction: {largest} operations; etcd takes {OPERATIONS_MAX} at once"
            )
        request = messages.TxnRequest(
            compare=[self._compare(compare) for compare in compares],
            success=[self._request(op) for op in success_ops],
            failure=[self._request(op) for op in failure_ops],
        )
        answer = await self._client.call(TXN, request)
        responses = tuple(self._response(response) for response in answer.responses)
        return TxnResult(answer.succeeded, answer.header.revision, responses)

    def watch(self, prefix: str, from_revision: int) -> EtcdWatch:
        if from_revision < 1:
            raise InvalidRequest(f"from_revision: {from_revision} is below 1")
        watch = EtcdWatch(self._client, self._range(prefix), from_revision, self._kv, self._watches)
        self._watches.add(watch)
        return watch

    # --- leases ---------------------------------------------------------------------------

    async def grant_lease(self, ttl_ms: int) -> LeaseId:
        """etcd counts whole seconds, and has a minimum that follows from its election time-out."""
        if ttl_ms < 1:
            raise InvalidRequest(f"ttl_ms: {ttl_ms} is below 1")
        request = messages.LeaseGrantRequest(TTL=-(-ttl_ms // 1_000))
        return LeaseId((await self._client.call(LEASE_GRANT, request)).ID)

    async def keep_alive(self, lease: LeaseId) -> int:
        answer = await self._client.call_once(
            LEASE_KEEP_ALIVE, messages.LeaseKeepAliveRequest(ID=lease)
        )
        if answer.TTL <= 0:
            raise LeaseNotFound(f"lease {lease} does not exist or has expired")
        return int(answer.TTL) * 1_000

    def keep_lease(
        self,
        lease: LeaseId,
        ttl_ms: int,
        *,
        stall_max_ms: int,
        on_lost: Callable[[], None],
    ) -> LeaseKeeper:
        keeper = LeaseKeeper(
            self._address, lease, ttl_ms, stall_max_ms=stall_max_ms, on_lost=on_lost
        )
        keeper.start()
        return keeper

    async def revoke(self, lease: LeaseId) -> None:
        await self._client.call(LEASE_REVOKE, messages.LeaseRevokeRequest(ID=lease))

    # --- our words and etcd's -------------------------------------------------------------

    def _full(self, key: str) -> bytes:
        if not key:
            raise InvalidRequest("key: must not be empty")
        return (self._prefix + key).encode()

    def _range(self, prefix: str) -> tuple[bytes, bytes]:
        """First key, and the first one after the last; etcd's zero byte stands for all keys."""
        start = (self._prefix + prefix).encode()
        if not start:
            return b"\0", b"\0"
        # UTF-8 has no byte 0xff, so the last byte can always be raised.
        return start, start[:-1] + bytes((start[-1] + 1,))

    def _compare(self, compare: Compare) -> Any:
        is_value = compare.target is CompareTarget.VALUE
        if isinstance(compare.value, bytes) is not is_value:
            raise InvalidRequest(f"{compare}: compares {compare.target.value} with another type")
        return messages.Compare(
            key=self._full(compare.key),
            result=_RESULTS[compare.op],
            target=_TARGETS[compare.target],
            **{compare.target.value: compare.value},
        )

    def _request(self, op: Op) -> Any:
        match op:
            case Get(key):
                return messages.RequestOp(request_range=messages.RangeRequest(key=self._full(key)))
            case GetPrefix(prefix):
                start, end = self._range(prefix)
                return messages.RequestOp(
                    request_range=messages.RangeRequest(key=start, range_end=end)
                )
            case Put(key, value, lease):
                return messages.RequestOp(
                    request_put=messages.PutRequest(
                        key=self._full(key), value=value, lease=lease, prev_kv=True
                    )
                )
            case Delete(key):
                return messages.RequestOp(
                    request_delete_range=messages.DeleteRangeRequest(
                        key=self._full(key), prev_kv=True
                    )
                )
            case DeletePrefix(prefix):
                start, end = self._range(prefix)
                return messages.RequestOp(
                    request_delete_range=messages.DeleteRangeRequest(
                        key=start, range_end=end, prev_kv=True
                    )
                )

    def _response(self, response: Any) -> tuple[KeyValue, ...]:
        match response.WhichOneof("chosen"):
            case "response_range":
                return self._kvs(response.response_range.kvs)
            case "response_put":
                put = response.response_put
                return (self._kv(put.prev_kv),) if put.HasField("prev_kv") else ()
        return self._kvs(response.response_delete_range.prev_kvs)

    def _kvs(self, kvs: Any) -> tuple[KeyValue, ...]:
        return tuple(map(self._kv, kvs))

    def _kv(self, kv: Any) -> KeyValue:
        return KeyValue(
            kv.key.decode()[len(self._prefix) :],
            kv.value,
            kv.create_revision,
            kv.mod_revision,
            kv.version,
            LeaseId(kv.lease),
        )
