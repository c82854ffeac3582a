"""Whether the others of a cluster go on without a broker that cannot reach the metadata store.

A registration that ended never comes back. So whoever knows a later revision than a broker that was
admitted, and does not find it there, knows that others may lead what it led. If none of those that
can be asked knows such a thing, the store is away for all of them, or the registration stands.
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from goqueue.model.names import NodeId


class Knowledge(NamedTuple):
    """What a broker knows of its cluster: up to which revision, and the data directories of the
    brokers that are admitted there."""

    revision: int
    directories: Mapping[NodeId, UUID | None]


def goes_on_without(
    me: NodeId, directory: UUID, own: Knowledge, heard: Mapping[NodeId, Knowledge]
) -> NodeId | None:
    """Who of the others knows that this broker is not admitted any more; None if nobody does.

    `own` is from when this broker was admitted, or later. Another one may have its node id by now,
    with a directory of its own.
    """
    return next(
        (
            node
            for node, word in sorted(heard.items())
            if word.revision > own.revision
            and word.directories.get(me) != directory
            and _is_of_the_same_cluster(me, own, word)
        ),
        None,
    )


def _is_of_the_same_cluster(me: NodeId, own: Knowledge, word: Knowledge) -> bool:
    """An address may be that of another cluster's broker by now, whose revisions mean nothing."""
    return any(
        directory is not None and word.directories.get(node) == directory
        for node, directory in own.directories.items()
        if node != me
    )
