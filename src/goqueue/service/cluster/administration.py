"""The cluster and its brokers: described, configured, measured."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from goqueue.broker.node import Node
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.caller import Caller
from goqueue.model.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigResourceKind
from goqueue.model.coordinators import CoordinatorKind
from goqueue.model.errors import InvalidRequest, NotLeader, UnknownPartition
from goqueue.model.log import LogDirView
from goqueue.model.names import NodeId
from goqueue.model.rights import CLUSTER_NAME, VERBS, Resource, Verb
from goqueue.model.topics import BrokerView, ClusterView, LeaderView, OfflinePartition
from goqueue.service.routing import Routing
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited

# Doors open before a broker is admitted, which takes as long as its cluster takes to elect a
# controller. Clients wait about 30 s for an answer.
_START_LOOK_S: Final = 0.02
_START_LOOKS: Final = 1_500


class Administration:
    def __init__(self, node: Node, access: Access, routing: Routing) -> None:
        self._node = node
        self._access = access
        self._routing = routing

    # --- what anyone may know -------------------------------------------------------------

    @property
    def node_id(self) -> NodeId:
        return self._node.node_id

    @property
    def cluster(self) -> ClusterView:
        """Who is there: without it no client could find where to ask.

        When etcd stood still all registrations end at once, and are made anew. A client that is
        told of nobody forgets everyone whom it could ask again; those who departed are told, too.
        """
        image, cluster = self._node.image, self._node.cluster
        admitted = image.admitted()
        return ClusterView(
            self._node.cluster_id,
            image.controller_id,
            tuple(each for each in image.brokers.values() if each.node_id in admitted),
            tuple(each for each in image.brokers.values() if each.node_id not in admitted),
            () if cluster is None else cluster.departed.brokers,
        )

    async def cluster_at_work(self) -> ClusterView:
        """As `cluster`; at a start it waits until somebody is there, which may be this broker."""
        for _ in range(_START_LOOKS):
            if self.cluster.brokers or self.cluster.departed:
                break
            await asyncio.sleep(_START_LOOK_S)
        return self.cluster

    def leader(self, topic: str, index: int) -> LeaderView | None:
        """Of a partition that the caller may use; None where there is no such partition."""
        image = self._node.image
        view = image.topics.get(topic)
        if view is None or not 0 <= index < len(view.partitions):
            return None
        partition = view.partitions[index]
        return LeaderView(
            partition.leader, partition.leader_epoch, image.brokers.get(partition.leader)
        )

    @property
    def announcement(self) -> BrokerView | None:
        """Where this broker is reached, as the cluster was told; None if it never was."""
        return self._node.image.brokers.get(self._node.node_id)

    @property
    def serving_failure(self) -> str | None:
        """Why this broker should get no traffic now; None while it should."""
        return self._node.serving_failure

    @property
    def stepped_down(self) -> str | None:
        """Why the others go on without this broker; None while they do not."""
        cluster = self._node.cluster
        return None if cluster is None else cluster.membership.stepped_down

    def allowed(self, caller: Caller, resource: Resource, name: str) -> list[Verb]:
        """What the caller may do (KIP-430)."""
        return [
            verb for verb in VERBS[resource] if self._access.allows(caller, resource, name, verb)
        ]

    def may_describe_cluster(self, caller: Caller) -> bool:
        return self._access.allows(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE)

    # --- finding --------------------------------------------------------------------------

    async def coordinator(
        self, caller: Caller, kind: CoordinatorKind, key: str
    ) -> BrokerView | None:
        """The broker that looks after a group, a transactional id or a share group's state."""
        if kind is CoordinatorKind.TRANSACTION:
            self._access.describable_transactional_id(caller, key)
            leader = await self._routing.transaction_coordinator(key)
        elif kind is CoordinatorKind.GROUP:
            self._access.describable_group(caller, key)
            leader = await self._routing.group_coordinator(key)
        else:
            # Only brokers look for these.
            self._access.acting_cluster(caller)
            leader = self._routing.share_coordinator(key)
        return self._node.image.brokers.get(leader)

    async def log_dirs(
        self, caller: Caller, names: Iterable[tuple[str, int]] | None = None
    ) -> LogDirView:
        """How much these partitions take on disk; None: all."""
        return await self._node.data_disk.describe(self._access.describable_cluster(caller), names)

    def move_to_log_dir(self, caller: Caller, path: str, topic: str, index: int) -> None:
        """Nothing to do for a replica that is there already; there is no other directory."""
        self._node.data_disk.check_path(self._access.alterable_cluster(caller), path)
        if self.leader(topic, index) is None:
            raise UnknownPartition(f"there is no partition {index} of topic {topic!r}")
        if self._node.hosted.get(topic, index) is None:
            raise NotLeader(f"this broker has no replica of partition {index} of {topic!r}")

    def offline_partitions(self, caller: Caller) -> list[OfflinePartition]:
        """Those the caller may know of, by name, and why they are offline."""
        return [
            OfflinePartition(name.topic, name.partition, reason)
            for name, reason in sorted(self._node.hosted.offline.items())
            if self._access.sees_topic(caller, name.topic)
        ]

    # --- settings -------------------------------------------------------------------------

    def follow_settings(self, listener: Callable[[BrokerConfig], None]) -> None:
        """Tell a door what holds, now and whenever it was changed."""
        self._node.broker_configs.follow(listener)

    def describe_config(self, caller: Caller, resource: ConfigResource) -> list[ConfigEntry]:
        name = resource.name
        if resource.kind is ConfigResourceKind.TOPIC:
            return self._node.topics.describe_config(self._access.inspectable_topic(caller, name))
        if resource.kind is ConfigResourceKind.GROUP:
            group = self._access.inspectable_group(caller, name)
            return self._node.group_configs.describe(group)
        if resource.kind is ConfigResourceKind.CLIENT_METRICS:
            cluster = self._access.inspectable_cluster(caller)
            return self._node.client_metrics.describe(cluster, name)
        if resource.kind is ConfigResourceKind.BROKER_LOGGER:
            return self._node.log_levels.describe(self._access.inspectable_cluster(caller), name)
        return self._node.broker_configs.describe(self._access.inspectable_cluster(caller), name)

    @audited(
        "config.alter", Resource.CLUSTER, about="resource.name", detail=("resource.kind", "changes")
    )
    async def alter_config(
        self,
        caller: Caller,
        resource: ConfigResource,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single settings."""
        name, node, access = resource.name, self._node, self._access
        if resource.kind is ConfigResourceKind.TOPIC:
            topic = access.configurable_topic(caller, name)
            await node.topics.alter_config(topic, changes, validate_only=validate_only)
        elif resource.kind is ConfigResourceKind.GROUP:
            group = access.configurable_group(caller, name)
            await node.group_configs.alter(group, changes, validate_only=validate_only)
        elif resource.kind is ConfigResourceKind.CLIENT_METRICS:
            cluster = access.configurable_cluster(caller)
            await node.client_metrics.alter(cluster, name, changes, validate_only=validate_only)
        elif resource.kind is ConfigResourceKind.BROKER_LOGGER:
            cluster = access.configurable_cluster(caller)
            node.log_levels.alter(cluster, name, changes, validate_only=validate_only)
        else:
            cluster = access.configurable_cluster(caller)
            await node.broker_configs.alter(cluster, name, changes, validate_only=validate_only)
        if not validate_only:
            await node.news.spread()

    @audited(
        "config.replace",
        Resource.CLUSTER,
        about="resource.name",
        detail=("resource.kind", "config"),
    )
    async def replace_config(
        self,
        caller: Caller,
        resource: ConfigResource,
        config: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace all of a resource's own settings."""
        name, node, access = resource.name, self._node, self._access
        if resource.kind is ConfigResourceKind.TOPIC:
            topic = access.configurable_topic(caller, name)
            await node.topics.replace_config(topic, config, validate_only=validate_only)
        elif resource.kind is ConfigResourceKind.GROUP:
            group = access.configurable_group(caller, name)
            await node.group_configs.replace(group, config, validate_only=validate_only)
        elif resource.kind is ConfigResourceKind.CLIENT_METRICS:
            cluster = access.configurable_cluster(caller)
            await node.client_metrics.replace(cluster, name, config, validate_only=validate_only)
        elif resource.kind is ConfigResourceKind.BROKER_LOGGER:
            access.configurable_cluster(caller)
            raise InvalidRequest("log levels are changed one by one (IncrementalAlterConfigs)")
        else:
            cluster = access.configurable_cluster(caller)
            await node.broker_configs.replace(cluster, name, config, validate_only=validate_only)
        if not validate_only:
            await node.news.spread()

    def config_resources(self, caller: Caller) -> list[ConfigResource]:
        """Everything that has settings (KIP-1142), but what tenants have."""
        self._access.inspectable_cluster(caller)
        image = self._node.image
        kind = ConfigResourceKind
        topics = (n for n in image.topics if self._access.owns(caller, Resource.TOPIC, n))
        own = (name for name, settings in image.group_configs.items() if settings)
        groups = (name for name in own if self._access.owns(caller, Resource.GROUP, name))
        return [
            *(ConfigResource(kind.TOPIC, name) for name in topics),
            *(ConfigResource(kind.BROKER, str(node_id)) for node_id in image.brokers),
            *(ConfigResource(kind.BROKER_LOGGER, str(node_id)) for node_id in image.brokers),
            *(ConfigResource(kind.GROUP, name) for name in groups),
            *(ConfigResource(kind.CLIENT_METRICS, name) for name in image.client_metrics),
        ]
