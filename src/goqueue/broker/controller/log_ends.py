"""How far logs in doubt go, as their brokers tell it: under their leases, in the metadata store.

It is asked for only when everyone who had all that was committed came back without some of it.
"""

from goqueue.metadata.store import MetadataStore
from goqueue.model.names import TopicPartition
from goqueue.model.replication import Member
from goqueue.state import metadata_keys as keys
from goqueue.state.controller.elections import LogEnd


async def told_log_ends(
    store: MetadataStore, partition: TopicPartition, leader_epoch: int
) -> dict[Member, LogEnd]:
    """Of those that have accepted `leader_epoch`: others may still follow an older leader."""
    prefix = keys.log_ends_prefix(*partition)
    found = await store.get_prefix(prefix)
    told = (keys.decode_value(kv.key, kv.value, keys.LogEndValue) for kv in found.kvs)
    return {
        Member(end.node, end.broker_epoch): LogEnd(end.last_epoch, end.end_offset)
        for end in told
        if end.leader_epoch == leader_epoch
    }
