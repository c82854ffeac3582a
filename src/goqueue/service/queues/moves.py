"""Move tasks, which bring dead letters back: started, listed, cancelled."""

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.errors import InvalidRequest, UnknownTopic
from goqueue.model.queues.moves import (
    MoveTask,
    NewMove,
    UnknownMoveDestination,
    UnknownMoveSource,
)
from goqueue.model.rights import DescribableTopic, ReadableTopic, Resource, WritableTopic
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited


class MoveService:
    def __init__(self, node: Node, access: Access) -> None:
        self._moves = node.moves
        self._catalogue = node.sqs_catalogue
        self._access = access

    @audited("dead_letters.move", Resource.TOPIC, about="new.source", detail=("new.destination",))
    async def start(self, caller: Caller, new: NewMove) -> MoveTask:
        source = self._access.readable_topic(caller, new.source)
        destination = None
        if new.destination is not None:
            destination = self._access.writable_topic(caller, new.destination)
        self._check_source(source)
        if not self._catalogue.sources_of(source):
            raise InvalidRequest("Source queue must be configured as a Dead Letter Queue.")
        origins = sorted(self._catalogue.origins_of(source))
        if destination is None:
            # Messages go back to where each came from, so all of these are written to.
            for origin in origins:
                self._access.writable_topic(caller, origin)
        else:
            self._check_destination(destination)
        return await self._moves.start(
            source,
            new.source_arn,
            destination=destination,
            destination_arn=new.destination_arn,
            rate=new.rate,
            origins=origins,
        )

    async def list_tasks(self, caller: Caller, source: str) -> list[MoveTask]:
        """Those of a dead-letter queue, the newest first."""
        topic = self._access.describable_topic(caller, source)
        self._check_source(topic)
        return await self._moves.list_tasks(topic)

    async def cancel(self, caller: Caller, source: str, task_id: str) -> int:
        """Returns how many messages were moved."""
        topic = self._access.readable_topic(caller, source)
        self._check_source(topic)
        return await self._moves.cancel(topic, task_id)

    def _check_source(self, topic: ReadableTopic | DescribableTopic) -> None:
        try:
            self._catalogue.find(topic)
        except UnknownTopic as error:
            raise UnknownMoveSource(str(error)) from None

    def _check_destination(self, topic: WritableTopic) -> None:
        try:
            self._catalogue.find(topic)
        except UnknownTopic as error:
            raise UnknownMoveDestination(str(error)) from None
