"""Where a broker known by its Kafka address answers HTTP: the registry, transactions, the console.

The broker tells it as the read-only setting `advertised.http.url`.
"""

from typing import Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.static.primitive import i8

from goqueue.client.blocking_connection import BlockingConnection, connect_any
from goqueue.client.errors import BrokerUnreachable

HTTP_URL_SETTING: Final = "advertised.http.url"
_BROKER_RESOURCE: Final = i8(4)


def find_http_url(bootstrap_servers: str) -> str:
    """The HTTP address of one broker of the cluster; `BrokerUnreachable` if none tells it."""
    with connect_any(bootstrap_servers) as connection:
        return _ask(connection)


def _ask(connection: BlockingConnection) -> str:
    no_topics = MetadataRequest(
        topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    cluster = connection.call(no_topics, MetadataResponse)
    for node in cluster.brokers:
        # Each broker describes only itself.
        with BlockingConnection(node.host, int(node.port)) as broker:
            url = _described(broker, str(int(node.node_id)))
        if url:
            return url
    raise BrokerUnreachable(
        f"the broker at {connection.address} does not tell where it answers HTTP; "
        "name the address yourself, such as http.url or schema.registry.url=http://host:8080"
    )


def _described(broker: BlockingConnection, node_id: str) -> str | None:
    asked = DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE,
        resource_name=node_id,
        configuration_keys=(HTTP_URL_SETTING,),
    )
    response = broker.call(DescribeConfigsRequest(resources=(asked,)), DescribeConfigsResponse)
    result = response.results[0]
    if result.error_code is not ErrorCode.none:
        return None
    return next((entry.value for entry in result.configs if entry.name == HTTP_URL_SETTING), None)
