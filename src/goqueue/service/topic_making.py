"""Topics that are made by being asked for, where the broker's settings allow it."""

from goqueue.broker.node import Node
from goqueue.broker.quotas.limited_topics import LimitedTopics
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource
from goqueue.model.topics import NewTopic, TopicView
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited


class TopicMaking:
    def __init__(self, node: Node, access: Access) -> None:
        self._limited = LimitedTopics(node, access.administers_cluster)
        self._access = access

    # Whoever asks for a topic that is not there, and not made, changes nothing.
    @audited("topic.create", Resource.TOPIC, about="name", notes_failures=False)
    async def ensure(self, caller: Caller, name: str) -> TopicView:
        return await self._limited.ensure(caller, self._access.creatable_topic(caller, name))

    @audited("topic.create", Resource.TOPIC, about="new.name", notes_failures=False)
    async def make(self, caller: Caller, new: NewTopic) -> None:
        """For an application that needs it, as it says."""
        right = self._access.creatable_topic(caller, new.name)
        await self._limited.create(caller, right, new)
