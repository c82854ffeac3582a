"""Move tasks, which bring dead letters back: started, listed, cancelled."""

from collections.abc import Iterable

from msgspec import UnsetType

from goqueue.broker.node import Node
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import InvalidRequest, TopicAccessDenied, UnknownTopic
from goqueue.model.queues.moves import (
    MoveStarter,
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
        self._users = node.security.users
        if access.has_rules:
            node.moves.check = self._check_starter

    @audited("dead_letters.move", Resource.TOPIC, about="new.source", detail=("new.destination",))
    async def start(self, caller: Caller, new: NewMove) -> MoveTask:
        source, destination = self._ends(caller, new.source, new.destination)
        self._check_source(source)
        if not self._catalogue.sources_of(source):
            raise InvalidRequest("Source queue must be configured as a Dead Letter Queue.")
        origins = sorted(self._catalogue.origins_of(source))
        if destination is None:
            self._check_origins(caller, origins)
        else:
            self._check_destination(destination)
        return await self._moves.start(
            source,
            new.source_arn,
            destination=destination,
            destination_arn=new.destination_arn,
            rate=new.rate,
            origins=origins,
            starter=self._starter(caller) if self._access.has_rules else None,
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

    # --- rights ---------------------------------------------------------------------------

    def _ends(
        self, caller: Caller, source: str, destination: str | None
    ) -> tuple[ReadableTopic, WritableTopic | None]:
        readable = self._access.readable_topic(caller, source)
        if destination is None:
            return readable, None
        return readable, self._access.writable_topic(caller, destination)

    def _check_origins(self, caller: Caller, origins: Iterable[str]) -> None:
        """Messages go back to where each came from, so all of these are written to."""
        for origin in origins:
            self._access.writable_topic(caller, origin)

    def _starter(self, caller: Caller) -> MoveStarter:
        kind, name, tenant = caller.principal
        return MoveStarter(
            kind=kind,
            name=name,
            tenant=tenant,
            address=caller.address,
            user_created_ms=self._user_created_ms(caller.principal),
        )

    def _check_starter(self, task: MoveTask) -> None:
        """Whether who started a task could start it now."""
        starter, origins = task.starter, task.origins
        if isinstance(starter, UnsetType) or isinstance(origins, UnsetType):
            return
        principal = Principal(starter.kind, starter.name, starter.tenant)
        caller = Caller(principal=principal, door=Door.SQS, address=starter.address)
        if self._user_created_ms(principal) != starter.user_created_ms:
            raise TopicAccessDenied(f"{principal} is no longer the user that started the task")
        _, destination = self._ends(caller, task.source, task.destination)
        if destination is None:
            self._check_origins(caller, origins)

    def _user_created_ms(self, principal: Principal) -> int | None:
        """Another user of the same name is somebody else. None where only others know the name."""
        user = self._users.find(principal.name)
        return user.created_ms if user is not None and user.principal == principal else None

    # --- queues ---------------------------------------------------------------------------

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
