"""How many records a range has, as the broker that leads it counts them: none is fetched."""

import logging
import time
from typing import Final

from kio.schema.describe_configs.v4.response import DescribeConfigsResponse

from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.group_facts import PartitionKey
from goqueue.client.http_address import HTTP_URL_SETTING
from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import READ_COMMITTED, LogRange
from goqueue.client.questions import BROKER_RESOURCE, setting_in, setting_request
from goqueue.model.client_security import ClientSecurity

log = logging.getLogger(__name__)

# The broker answers after two seconds with what it has counted, and may be asked by many.
_TIMEOUT_S: Final = 10.0
# HTTP addresses that could not be reached from this process, and until when they are not tried
# again: behind a firewall each try would take the whole time-out, and a worker has many tasks.
_GIVEN_UP_S: Final = 60.0
_given_up: dict[str, float] = {}


def count_range(cluster: LogCluster, wanted: LogRange, *, isolation: int) -> int | None:
    """None if nobody can tell: then read.

    The broker may be an older one, or Kafka itself, or not be reached over HTTP from here, and the
    range may not be whole any more.
    """
    try:
        url = cluster.patiently(lambda: _http_url(cluster, wanted.place))
        if url is None or time.monotonic() < _given_up.get(url, 0):
            return None
        return _count(url, wanted, isolation, cluster.security)
    except (BrokerUnreachable, RequestRefused, HttpUnreachable, HttpRefused) as error:
        log.info("%s-%d is read to be counted: %s", wanted.topic, wanted.partition, error)
        return None


def _http_url(cluster: LogCluster, place: PartitionKey) -> str | None:
    node, connection = cluster.leader_node(place), cluster.leader(place)
    asked = setting_request(BROKER_RESOURCE, [str(node)], HTTP_URL_SETTING)
    return setting_in(connection.call(asked, DescribeConfigsResponse), HTTP_URL_SETTING)


def _count(url: str, wanted: LogRange, isolation: int, security: ClientSecurity) -> int | None:
    api = HttpApi(url, timeout_s=_TIMEOUT_S, security=security).within(
        "topics", wanted.topic, "partitions", str(wanted.partition)
    )
    level = "read_committed" if isolation == READ_COMMITTED else "read_uncommitted"
    records, offset = 0, wanted.start
    while offset < wanted.end:
        query = {"from": offset, "to": wanted.end, "isolation": level}
        try:
            answer = api.get("count", **query)
        except HttpUnreachable:
            _given_up[url] = time.monotonic() + _GIVEN_UP_S
            raise
        is_progress = isinstance(answer, dict) and answer.get("nextOffset", offset) > offset
        # Another topic of this name may have been made since the range was chosen.
        if not is_progress or answer.get("topicId") != str(wanted.topic_id):
            return None
        records += answer["count"]
        offset = answer["nextOffset"]
    return records
