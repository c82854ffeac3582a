"""Which partitions of topics were split off which, for code that reads logs by itself."""

from collections.abc import Collection

from kio.schema.describe_configs.v4.response import DescribeConfigsResponse

from goqueue.client.log_cluster import LogCluster
from goqueue.client.questions import TOPIC_RESOURCE, setting_request
from goqueue.model.layouts import LAYOUT_SETTING, Split, splits_in


def splits_of(cluster: LogCluster, topics: Collection[str]) -> dict[str, tuple[Split, ...]]:
    """By topic, of those that were split. A broker that does not tell, such as Kafka, splits
    nothing."""
    if not topics:
        return {}
    asked = setting_request(TOPIC_RESOURCE, sorted(topics), LAYOUT_SETTING)
    told = cluster.patiently(lambda: cluster.any_broker().call(asked, DescribeConfigsResponse))
    return {
        found.resource_name: splits_in(entry.value)
        for found in told.results
        for entry in found.configs
        if entry.name == LAYOUT_SETTING and entry.value
    }
