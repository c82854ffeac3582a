"""Companions are led where the partitions are led that they belong to (`model/companions.py`).

They have the same replicas in the same order, and an election looks for one that has everything of
all of them (`in_sync_in_all`). Where there is none, or the partition was moved, the companion
follows as soon as it can.
"""

from collections.abc import Iterator

from goqueue.model.replication import Member
from goqueue.state.controller.planning import ChangePartition, ClusterView
from goqueue.state.replication.in_sync import led_by


def following_owners(view: ClusterView) -> Iterator[ChangePartition]:
    leaving = view.leaving()
    candidates = {node: epoch for node, epoch in view.admitted().items() if node not in leaving}
    present = {node: broker.broker_epoch for node, broker in view.brokers.items()}
    for companion, owner in view.owners.items():
        stored, wanted = view.partitions.get(companion), view.partitions.get(owner)
        if stored is None or wanted is None or not stored.state.has_leader:
            continue
        leader = wanted.state.leader
        if leader == stored.state.leader or leader not in candidates:
            continue
        member = Member(leader, candidates[leader])
        if member in stored.state.in_sync:
            state = led_by(stored.state, member, present)
            yield ChangePartition(companion, state, stored.revision, (member,))
