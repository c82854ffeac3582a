"""What is pending and what was delivered: on this broker, and in the whole cluster."""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.calls.calls import Calls
from goqueue.broker.delays.figures import DelayFigures, TopicFigures
from goqueue.broker.delays.led_shards import DelayShards
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.calls import Method, Unanswered
from goqueue.model.delays import DelayStats, TopicDelayStats
from goqueue.model.rights import DescribableCluster


class ReadStats(msgspec.Struct, frozen=True):
    cluster: DescribableCluster


STATS: Final = Method("delays.stats", ReadStats, DelayStats, waits=True, is_repeatable=True)


class DelayStatistics:
    def __init__(
        self, host: ShardHost, shards: DelayShards, figures: DelayFigures, calls: Calls
    ) -> None:
        self._host = host
        self._shards = shards
        self._figures = figures
        self._calls = calls
        calls.serve(STATS, self._read_here)

    async def of_cluster(self, cluster: DescribableCluster) -> DelayStats:
        """Of all brokers since each started; what is pending, by topic."""
        gathered = await self._calls.gather(STATS, ReadStats(cluster))
        return _together(list(gathered.answers.values()), gathered.unanswered)

    async def _read_here(self, request: ReadStats) -> DelayStats:
        return self.of_broker(request.cluster)

    def of_broker(self, _cluster: DescribableCluster) -> DelayStats:
        figures = self._figures
        shards = [running.shard for running in self._shards.running()]
        pending: dict[UUID, int] = {}
        for shard in shards:
            for target in shard.machine.targets:
                if target.pending:
                    topic_id = target.key.topic_id
                    pending[topic_id] = pending.get(topic_id, 0) + target.pending
        due = [shard.next_due_ms for shard in shards] if pending else []
        return DelayStats(
            pending=sum(pending.values()),
            in_memory=sum(len(shard.machine.pending) for shard in shards),
            pending_bytes=sum(shard.machine.live_bytes for shard in shards),
            next_due_ms=_first(due),
            delivered=figures.delivered,
            cancelled=figures.cancelled,
            lateness_counts=tuple(figures.lateness.counts),
            lateness_sum_ms=figures.lateness.sum_ms,
            topics=self._topics(pending),
        )

    def _topics(self, pending: dict[UUID, int]) -> list[TopicDelayStats]:
        topics = []
        for topic_id in {*pending, *self._figures.topics}:
            view = self._host.image.topics_by_id.get(topic_id)
            if view is None:
                continue
            counts = self._figures.topics.get(topic_id) or TopicFigures()
            topics.append(
                TopicDelayStats(
                    topic=view.name,
                    pending=pending.get(topic_id, 0),
                    delivered=counts.delivered,
                    cancelled=counts.cancelled,
                    lateness_counts=tuple(counts.lateness.counts),
                )
            )
        return sorted(topics, key=lambda topic: topic.topic)


def _together(found: Sequence[DelayStats], unanswered: Sequence[Unanswered]) -> DelayStats:
    by_topic: dict[str, list[TopicDelayStats]] = {}
    for stats in found:
        for topic in stats.topics:
            by_topic.setdefault(topic.topic, []).append(topic)
    return DelayStats(
        pending=sum(each.pending for each in found),
        in_memory=sum(each.in_memory for each in found),
        pending_bytes=sum(each.pending_bytes for each in found),
        next_due_ms=_first([each.next_due_ms for each in found]),
        delivered=sum(each.delivered for each in found),
        cancelled=sum(each.cancelled for each in found),
        lateness_counts=_added([each.lateness_counts for each in found]),
        lateness_sum_ms=sum(each.lateness_sum_ms for each in found),
        topics=[
            TopicDelayStats(
                topic=name,
                pending=sum(each.pending for each in parts),
                delivered=sum(each.delivered for each in parts),
                cancelled=sum(each.cancelled for each in parts),
                lateness_counts=_added([each.lateness_counts for each in parts]),
            )
            for name, parts in sorted(by_topic.items())
        ],
        unanswered=unanswered,
    )


def _first(due: Collection[int | None]) -> int | None:
    return min((at_ms for at_ms in due if at_ms is not None), default=None)


def _added(counts: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*counts, strict=True)]
