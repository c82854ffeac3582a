"""Brokers that run: they say how far their logs go, and the logs are fetched from their leaders.

The cut of a node of one is taken in one turn of its event loop: it is what `kill -9` at that moment
would have left, and all that recovery promises after a crash holds for it.

Brokers of a cluster are asked one after the other, so the order matters. Each step sees what the
steps before it saw, and perhaps more:

1. offsets of groups, and what queues have acknowledged: nothing is committed, acknowledged or moved
   to the dead letters that the data of step 2 do not have;
2. data, with the delayed messages of each partition, which are led by the same broker and cut in
   the same turn of its event loop: none is lost, none delivered twice;
3. the state of transactions, which decide nothing from before step 1 until after this: every
   partition that a transaction wrote to is known to its coordinator, and none is ended in some
   partitions only;
4. schemas and metadata: whatever the data refer to is there.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from goqueue.backup.errors import BackupFailed
from goqueue.backup.manifest import Place
from goqueue.backup.sources import Cut, StoredBatch
from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import EARLIEST, READ_UNCOMMITTED, LogRange
from goqueue.client.log_reader import read_stored
from goqueue.model.backups import CutPartition
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.model.companions import DELAYED, QUEUE_STATE, kind_and_owner
from goqueue.model.errors import UnknownNode
from goqueue.model.topics import OFFSETS_TOPIC
from goqueue.state import metadata_keys as keys

TTL_MS: Final = 5 * 60 * 1000
_RENEW_SECONDS: Final = 30.0
# For all cuts of a cluster together; transactions wait no longer than this.
PAUSE_MS: Final = 5_000
TRANSACTION_TOPIC: Final = "__transaction_state"
SCHEMAS_TOPIC: Final = "_schemas"
# Leaders move for a second or so when a broker has gone.
_TRIES: Final = 10
_TRY_AGAIN_SECONDS: Final = 1.0
# A broker that is started again is waited for.
_PATIENCE_SECONDS: Final = 60.0


class _Broker:
    """One broker that holds still for this backup. `node` tells it from others at its address."""

    def __init__(self, url: str, security: ClientSecurity, node: int | None = None) -> None:
        self.url = url
        self._api = HttpApi(url, security=security)
        self._node = node
        self._id: str | None = None

    def begin(self) -> None:
        try:
            answer = self._api.post("backups", body={"ttlMs": TTL_MS}, node=self._node)
        except HttpRefused as error:
            if error.status != HTTPStatus.NOT_FOUND or error.reason == UnknownNode.code:
                raise
            raise BackupFailed(
                f"the broker at {self.url} knows nothing of backups: it runs an earlier release, "
                "upgrade it first"
            ) from error
        self._id = str(answer["id"])

    def renew(self, **more: int) -> None:
        body = {"ttlMs": TTL_MS, **more}
        self._api.put("backups", self._name, body=body, node=self._node)

    def cut(self, *, with_metadata: bool = False) -> dict[str, Any]:
        body = {"withMetadata": with_metadata}
        answer: dict[str, Any] = self._api.post(
            "backups", self._name, "cut", body=body, node=self._node
        )
        return answer

    def end(self) -> None:
        if self._id is not None:
            self._api.delete("backups", self._name, node=self._node)
            self._id = None

    @property
    def _name(self) -> str:
        assert self._id is not None, "begin comes first"
        return self._id


def _at_one_address(urls: list[str], security: ClientSecurity) -> list[_Broker]:
    """Workers of one machine, each by its number; none where every broker has its own address."""
    if len(urls) != 1:
        return []
    try:
        told = HttpApi(urls[0], security=security).get("cluster", "metadata", limit=1)["brokers"]
        nodes = [int(broker["nodeId"]) for broker in told]
        is_one = len({broker["httpUrl"] for broker in told}) == 1
    except (HttpUnreachable, HttpRefused, KeyError, TypeError, ValueError):
        # What is wrong is told when the backup begins.
        return []
    if not is_one or len(nodes) < 2:
        return []
    return [_Broker(urls[0], security, node) for node in nodes]


class RunningSource:
    def __init__(
        self,
        bootstrap: str,
        http_urls: str,
        security: ClientSecurity = NO_SECURITY,
        *,
        kafka_security: ClientSecurity = NO_SECURITY,
    ) -> None:
        """`http_urls` are those of all brokers, with commas between."""
        self._bootstrap = bootstrap
        self._kafka_security = kafka_security
        urls = [each.strip() for each in http_urls.split(",") if each.strip()]
        at_one = _at_one_address(urls, security)
        self._brokers = at_one or [_Broker(url, security) for url in urls]
        self._failure: BackupFailed | None = None
        self._over = threading.Event()
        self._renewing: threading.Thread | None = None

    def cut(self) -> Cut:
        for broker in self._brokers:
            broker.begin()
        cut = self._cut_one() if len(self._brokers) == 1 else self._cut_several()
        self._renewing = threading.Thread(target=self._renew, name="goqueue-backup-renew")
        self._renewing.daemon = True
        self._renewing.start()
        return cut

    def reader(self) -> "RunningLogReader":
        return RunningLogReader(self._bootstrap, self._kafka_security)

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self._over.set()
        if self._renewing is not None:
            self._renewing.join()
        for broker in self._brokers:
            try:
                broker.end()
            except (HttpRefused, HttpUnreachable):
                # It ends by itself.
                continue

    def _renew(self) -> None:
        while not self._over.wait(_RENEW_SECONDS):
            for broker in self._brokers:
                try:
                    broker.renew()
                except HttpRefused as error:
                    self._failure = BackupFailed(
                        f"the broker at {broker.url} does not keep its logs for this backup any "
                        f"more: {error}; run the command again: what was stored is not stored again"
                    )
                    return
                except HttpUnreachable:
                    # One that is down compacts nothing; if it was started anew, it says so.
                    continue

    # --- cuts -----------------------------------------------------------------------------

    def _cut_one(self) -> Cut:
        answer = self._brokers[0].cut(with_metadata=True)
        self._check_all_asked(answer["metadata"])
        if answer["offline"]:
            place, reason = next(iter(answer["offline"].items()))
            raise BackupFailed(
                f"{len(answer['offline'])} partitions are offline, such as {place} ({reason}); "
                "see `goqueue data check`, or delete what is not needed"
            )
        return _as_cut(answer, [partition for partition, _ in _led(answer)])

    def _cut_several(self) -> Cut:
        for tried in range(1, _TRIES + 1):
            try:
                return self._cut_cluster()
            except _NotAtRest as error:
                if tried == _TRIES:
                    raise BackupFailed(
                        f"no cut could be taken of the cluster: {error}; see `goqueue cluster "
                        "status`, and try again when it is healthy"
                    ) from error
                time.sleep(_TRY_AGAIN_SECONDS)
        raise AssertionError("the last try returns or raises")

    def _cut_cluster(self) -> Cut:
        before = self._brokers[0].cut(with_metadata=True)
        self._check_all_asked(before["metadata"])
        found = self._cut_while_paused()
        found.add_all(self._brokers, lambda topic: topic == SCHEMAS_TOPIC)
        after = self._brokers[0].cut(with_metadata=True)
        found.check_complete(before["metadata"], after["metadata"])
        return _as_cut(after, found.partitions)

    def _cut_while_paused(self) -> "_ClusterCut":
        """Transactions decide nothing from the first step to the last."""
        found = _ClusterCut()
        began = time.monotonic()
        try:
            for broker in self._brokers:
                broker.renew(pauseTransactionsMs=PAUSE_MS)
            found.add_all(self._brokers, _is_cut_first)
            found.add_all(self._brokers, _is_data)
            found.add_all(self._brokers, lambda topic: topic == TRANSACTION_TOPIC)
            took_ms = (time.monotonic() - began) * 1000
        finally:
            for broker in self._brokers:
                with suppress(HttpUnreachable, HttpRefused):
                    broker.renew(pauseTransactionsMs=0)
        if took_ms >= PAUSE_MS:
            raise _NotAtRest(f"it took {took_ms:.0f} ms, and transactions wait for {PAUSE_MS} ms")
        return found

    def _check_all_asked(self, metadata: dict[str, str]) -> None:
        registered = [key for key in metadata if key.startswith(keys.BROKERS_PREFIX)]
        if len(registered) > len(self._brokers):
            raise BackupFailed(
                f"the cluster has {len(registered)} brokers, and {len(self._brokers)} told their "
                "HTTP address; name all of them with --http, with commas between"
            )


class _NotAtRest(Exception):
    """What the brokers said does not fit together, as while leaders move."""


class _ClusterCut:
    """What several brokers said, step by step."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], tuple[CutPartition, int]] = {}
        self._offline: dict[str, str] = {}

    @property
    def partitions(self) -> list[CutPartition]:
        return [partition for partition, _ in self._found.values()]

    def add_all(self, brokers: list[_Broker], is_wanted: Callable[[str], bool]) -> None:
        for broker in brokers:
            answer = broker.cut()
            self._offline |= answer["offline"]
            for partition, node in _led(answer):
                if is_wanted(partition.topic):
                    self._found[partition.topic, partition.partition] = partition, node

    def check_complete(self, before: dict[str, str], after: dict[str, str]) -> None:
        """What was there before and is there afterwards must have been cut, and delayed messages
        together with the partition that they go to."""
        names: dict[str, str] = {}
        for key in before.keys() & after.keys():
            match keys.parse_key(key):
                case keys.PartitionKey(topic, index) if (topic, index) not in self._found:
                    place = str(Place(topic, index))
                    raise _NotAtRest(
                        self._offline.get(place, f"{place} has no leader that knows its end")
                    )
                case keys.TopicKey(name):
                    topic_id = keys.decode_value(key, after[key].encode(), keys.TopicValue).id
                    names[topic_id.hex] = name
        for (kept_in, number), (_, node) in self._found.items():
            companion = kind_and_owner(kept_in)
            if companion is None or companion[0] != DELAYED:
                continue
            owner = self._found.get((names.get(companion[1].hex, ""), number))
            if owner is not None and owner[1] != node:
                raise _NotAtRest(f"the leader of {owner[0].topic}-{number} is moving")


def _is_cut_first(topic: str) -> bool:
    companion = kind_and_owner(topic)
    return topic == OFFSETS_TOPIC or (companion is not None and companion[0] == QUEUE_STATE)


def _is_data(topic: str) -> bool:
    return not _is_cut_first(topic) and topic not in (TRANSACTION_TOPIC, SCHEMAS_TOPIC)


def _led(answer: dict[str, Any]) -> Iterator[tuple[CutPartition, int]]:
    for each in answer["partitions"]:
        yield (
            CutPartition(
                topic=each["topic"],
                topic_id=UUID(each["topicId"]),
                partition=each["partition"],
                start=each["start"],
                end=each["end"],
                size_bytes=each["sizeBytes"],
                segment_bytes=each["segmentBytes"],
                is_compacted=each["isCompacted"],
            ),
            answer["nodeId"],
        )


def _as_cut(answer: dict[str, Any], partitions: list[CutPartition]) -> Cut:
    return Cut(
        cluster_id=answer["clusterId"],
        is_cluster=answer["isCluster"],
        taken_at_ms=answer["takenAt"],
        partitions=partitions,
        metadata=answer["metadata"],
    )


class RunningLogReader:
    def __init__(self, bootstrap: str, security: ClientSecurity = NO_SECURITY) -> None:
        self._cluster = LogCluster(
            bootstrap, patience_seconds=_PATIENCE_SECONDS, was_reached=True, security=security
        )

    def start_of(self, cut: CutPartition) -> int:
        place = (cut.topic, cut.partition)
        return self._cluster.offsets({place: EARLIEST}, isolation=READ_UNCOMMITTED)[place]

    def close(self) -> None:
        self._cluster.close()

    def batches(self, cut: CutPartition, start: int) -> Iterator[StoredBatch]:
        wanted = LogRange(
            topic=cut.topic,
            topic_id=cut.topic_id,
            partition=cut.partition,
            start=start,
            end=cut.end,
        )
        for fetched in read_stored(self._cluster, wanted):
            content = memoryview(fetched.content)
            for position, header in fetched.batches:
                yield StoredBatch(content[position : position + header.size_bytes], header)
