"""Rights to the cluster as a whole."""

from goqueue.model.caller import Caller
from goqueue.model.rights import (
    CLUSTER_NAME,
    ActingCluster,
    AlterableCluster,
    ConfigurableCluster,
    DescribableCluster,
    InspectableCluster,
    Resource,
    Verb,
)
from goqueue.service.security.rights.deciding import Deciding


class ClusterRights(Deciding):
    def describable_cluster(self, caller: Caller) -> DescribableCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE)
        return DescribableCluster(CLUSTER_NAME)

    def inspectable_cluster(self, caller: Caller) -> InspectableCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE_CONFIGS)
        return InspectableCluster(CLUSTER_NAME)

    def configurable_cluster(self, caller: Caller) -> ConfigurableCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER_CONFIGS)
        return ConfigurableCluster(CLUSTER_NAME)

    def alterable_cluster(self, caller: Caller) -> AlterableCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER)
        return AlterableCluster(CLUSTER_NAME)

    def marking_cluster(self, caller: Caller) -> ActingCluster:
        """To end a hanging transaction; administrators may as well as brokers (KIP-1037)."""
        if not self.allows(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER):
            return self.acting_cluster(caller)
        return ActingCluster(CLUSTER_NAME)

    def acting_cluster(self, caller: Caller) -> ActingCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.CLUSTER_ACTION)
        return ActingCluster(CLUSTER_NAME)
