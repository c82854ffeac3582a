"""Where a broker known by its Kafka address answers HTTP: the registry, transactions, the console.

The broker tells it as the read-only setting `advertised.http.url`.
"""

from typing import Final

from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from goqueue.client.addresses import parse_addresses
from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.client.questions import (
    BROKER_RESOURCE,
    broker_addresses,
    metadata_request,
    setting_request,
)
from goqueue.model.client_security import NO_SECURITY, ClientSecurity

HTTP_URL_SETTING: Final = "advertised.http.url"
# Who has no answer to this in time is asked for nothing else.
_LOOK_TIMEOUT_S: Final = 5.0


class HttpAddressUnknown(BrokerUnreachable):
    """A broker answers Kafka's protocol only; it may be Kafka itself."""

    code = "http_address_unknown"


def find_http_url(bootstrap_servers: str, security: ClientSecurity = NO_SECURITY) -> str:
    """Where the first broker that answers at one of these addresses answers HTTP.

    `HttpAddressUnknown` if it does not tell.
    """
    failure: BrokerUnreachable | None = None
    for address in parse_addresses(bootstrap_servers):
        try:
            with BlockingConnection(*address, security) as connection:
                return own_http_url(connection)
        except HttpAddressUnknown:
            raise
        except BrokerUnreachable as error:
            failure = failure or error
    assert failure is not None, "parse_addresses returns at least one"
    raise failure


def find_http_urls(bootstrap_servers: str, security: ClientSecurity = NO_SECURITY) -> str:
    """Where the brokers of the cluster answer HTTP, with commas between; the one that answers at
    one of these addresses is the first."""
    first = find_http_url(bootstrap_servers, security)
    try:
        api = HttpApi(first, timeout_s=_LOOK_TIMEOUT_S, security=security)
        told = api.get("cluster", "metadata", limit=1)
        others = [str(broker["httpUrl"]) for broker in told["brokers"]]
    except (HttpUnreachable, HttpRefused, KeyError, TypeError):
        # Of an older broker, or one that may not be asked from here.
        return first
    return ",".join(dict.fromkeys([first, *others]))


def own_http_url(connection: BlockingConnection) -> str:
    """Of the broker at the other end, whichever it is: each one tells its own address alone."""
    cluster = connection.call(metadata_request(()), MetadataResponse)
    names = [str(node) for node in broker_addresses(cluster)]
    asked = setting_request(BROKER_RESOURCE, names, HTTP_URL_SETTING)
    told = connection.call(asked, DescribeConfigsResponse)
    for found in told.results:
        for entry in found.configs:
            if entry.name == HTTP_URL_SETTING and entry.value:
                return entry.value
    raise HttpAddressUnknown(
        f"the broker at {connection.address} does not tell where it answers HTTP (where clients "
        "log in, that takes the right describe_configs on the cluster); name the address yourself, "
        "such as http://host:8080: with --http or in a profile, or in Spark with http.url or "
        "schema.registry.url"
    )
