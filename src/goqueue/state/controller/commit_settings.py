"""What a topic's settings say about commits, and how it comes into the state of its partitions."""

from typing import NamedTuple

import msgspec

from goqueue.model.replication import PartitionState
from goqueue.state.replication.in_sync import with_min_in_sync


class CommitSettings(NamedTuple):
    # `min.insync.replicas`
    min_in_sync: int
    # The topic's own `fsync.policy` is `always`. A default of the brokers does not count: it can be
    # another one on each of them.
    is_flushed: bool


def following(state: PartitionState, commits: CommitSettings) -> PartitionState:
    """The state with what the settings say now.

    A partition that was not flushed from its beginning on never counts as flushed: what was written
    before may still be in memory only. One that is not flushed any more stops to count at once.
    """
    if state.min_in_sync != commits.min_in_sync:
        state = with_min_in_sync(state, commits.min_in_sync)
    if state.is_flushed and not commits.is_flushed:
        state = msgspec.structs.replace(state, is_flushed=False)
    return state
