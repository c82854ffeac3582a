"""Rights to topics, and which topics a caller sees."""

from collections.abc import Iterable, Sequence
from typing import Final, cast
from uuid import UUID

from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import AccessDenied, TopicAccessDenied, UnknownTopicId
from goqueue.model.groups.viewer import Viewer
from goqueue.model.log import FetchedPart, FetchPart
from goqueue.model.names import check_no_separator
from goqueue.model.rights import (
    CLUSTER_NAME,
    AlterableTopic,
    ConfigurableTopic,
    CreatableTopic,
    DeletableTopic,
    DescribableTopic,
    InspectableTopic,
    ReadablePart,
    ReadableTopic,
    ReadableTopics,
    Resource,
    Verb,
    WritableTopic,
)
from goqueue.model.security.tenants import inner_pattern, local_name
from goqueue.service.security.denials import word
from goqueue.service.security.rights.deciding import Deciding
from goqueue.service.sorted_requests import SortedParts

# What produce and fetch ask for: Python 3.11 looks a member of an enum up by a call of its own.
_TOPIC: Final = Resource.TOPIC
_READ: Final = Verb.READ
_WRITE: Final = Verb.WRITE


class TopicRights(Deciding):
    def readable_topic(self, caller: Caller, name: str) -> ReadableTopic:
        self._check(caller, _TOPIC, name, _READ)
        return ReadableTopic(name)

    def readable_topics(self, caller: Caller) -> ReadableTopics:
        """For what tells of many topics, from which that of others is left out."""
        return ReadableTopics(self._test(caller, Resource.TOPIC, Verb.READ))

    def readable_parts(self, caller: Caller, parts: Sequence[FetchPart]) -> SortedParts:
        refused: dict[int, FetchedPart] = {}
        if not self._has_every_right(caller):
            for position, part in enumerate(parts):
                try:
                    self._check(caller, _TOPIC, part.topic, _READ)
                except AccessDenied as error:
                    refused[position] = FetchedPart(part.topic, part.index, error)
        if refused:
            parts = [part for position, part in enumerate(parts) if position not in refused]
        # Mostly nothing is copied: a fetch may have thousands of parts.
        return SortedParts(cast("Sequence[ReadablePart]", parts), refused)

    def readable_part(self, caller: Caller, part: FetchPart) -> ReadablePart:
        self._check(caller, _TOPIC, part.topic, _READ)
        return ReadablePart(part)

    def writable_topic(self, caller: Caller, name: str) -> WritableTopic:
        self._check(caller, _TOPIC, name, _WRITE)
        return WritableTopic(name)

    def creatable_topic(self, caller: Caller, name: str) -> CreatableTopic:
        """May make this topic; the right to make topics at all is enough."""
        check_no_separator(local_name(caller.principal.tenant, name))
        if not self.owns(caller, Resource.TOPIC, name) or not self.allows(
            caller, Resource.CLUSTER, CLUSTER_NAME, Verb.CREATE
        ):
            self._check(caller, Resource.TOPIC, name, Verb.CREATE)
        return CreatableTopic(name)

    def deletable_topic(self, caller: Caller, name: str) -> DeletableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.DELETE)
        return DeletableTopic(name)

    def alterable_topic(self, caller: Caller, name: str) -> AlterableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.ALTER)
        return AlterableTopic(name)

    def describable_topic(self, caller: Caller, name: str) -> DescribableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.DESCRIBE)
        return DescribableTopic(name)

    def inspectable_topic(self, caller: Caller, name: str) -> InspectableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.DESCRIBE_CONFIGS)
        return InspectableTopic(name)

    def configurable_topic(self, caller: Caller, name: str) -> ConfigurableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.ALTER_CONFIGS)
        return ConfigurableTopic(name)

    def check_topic_of_id(self, caller: Caller, topic_id: UUID, name: str, verb: Verb) -> None:
        """For a request that names its topic by id: whoever may not is told so, as in Kafka, but
        not the name. Ids are no secret, and a client that is told the id was unknown asks for
        metadata again, and again.
        """
        if not self.owns(caller, Resource.TOPIC, name):
            if self._copies(caller, verb):
                return
            raise UnknownTopicId(f"there is no topic with id {topic_id}")
        if not self.allows(caller, Resource.TOPIC, name, verb):
            self._tell_refused(caller, Resource.TOPIC, name, verb)
            raise TopicAccessDenied(
                f"{caller.principal} is not allowed to {word(verb)} the topic with id {topic_id}"
            )

    def check_sees_all(self, caller: Caller, names: Iterable[str]) -> None:
        """For a description of a group, which is refused as a whole if it has topics that the
        caller may not see; without naming them, for the caller did not.
        """
        if not all(self.sees_topic(caller, name) for name in names):
            raise TopicAccessDenied(
                f"the group has topics that {caller.principal} is not allowed to describe"
            )

    def sees_topic(self, caller: Caller, name: str) -> bool:
        """Whether a list or a description may show the caller this topic."""
        return self.allows(caller, Resource.TOPIC, name, Verb.DESCRIBE)

    def pattern(self, caller: Caller, text: str) -> str:
        """A regular expression of the caller, as one over inner names."""
        return inner_pattern(caller.principal.tenant, text)

    def viewer(self, caller: Caller, *, must_read: bool = False) -> Viewer | None:
        """For whom such a regular expression finds topics."""
        return Viewer(*caller.principal, caller.address, must_read) if self.has_rules else None

    def sees_found(self, viewer: Viewer, name: str) -> bool:
        """Whether it finds this one."""
        principal = Principal(viewer.kind, viewer.name, viewer.tenant)
        caller = Caller(principal=principal, door=Door.KAFKA, address=viewer.address)
        verb = Verb.READ if viewer.must_read else Verb.DESCRIBE
        return self.allows(caller, Resource.TOPIC, name, verb)
