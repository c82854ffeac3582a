"""Where a broker known by its Kafka address answers HTTP: the registry, transactions, the console.

The broker tells it as the read-only setting `advertised.http.url`.
"""

from typing import Final

from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from goqueue.client.blocking_connection import BlockingConnection, connect_any
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.questions import (
    BROKER_RESOURCE,
    broker_addresses,
    metadata_request,
    setting_in,
    setting_request,
)

HTTP_URL_SETTING: Final = "advertised.http.url"


class HttpAddressUnknown(BrokerUnreachable):
    """A broker answers Kafka's protocol only; it may be Kafka itself."""

    code = "http_address_unknown"


def find_http_url(bootstrap_servers: str) -> str:
    """The HTTP address of one broker of the cluster; `HttpAddressUnknown` if none tells it."""
    with connect_any(bootstrap_servers) as connection:
        return _ask(connection)


def _ask(connection: BlockingConnection) -> str:
    cluster = connection.call(metadata_request(()), MetadataResponse)
    for node, address in broker_addresses(cluster).items():
        # Each broker describes only itself.
        with BlockingConnection(*address) as broker:
            asked = setting_request(BROKER_RESOURCE, str(node), HTTP_URL_SETTING)
            url = setting_in(broker.call(asked, DescribeConfigsResponse), HTTP_URL_SETTING)
        if url:
            return url
    raise HttpAddressUnknown(
        f"the broker at {connection.address} does not tell where it answers HTTP; name the address "
        "yourself, such as http://host:8080: with --http, or in Spark with http.url or "
        "schema.registry.url"
    )
