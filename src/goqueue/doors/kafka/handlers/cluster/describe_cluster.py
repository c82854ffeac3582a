"""DescribeCluster (KIP-700): the brokers and the controller."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.authorized_operations import NOT_ASKED_FOR, operations_on_cluster
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

# KIP-919: which kind of node is asked for.
_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(context: RequestContext, request: "DescribeClusterRequest") -> Message:
    cluster = context.service.administration.cluster
    if request.endpoint_type != _BROKERS:
        is_known = request.endpoint_type == _CONTROLLERS
        return {
            "error_code": (
                ErrorCode.mismatched_endpoint_type
                if is_known
                else ErrorCode.unsupported_endpoint_type
            ),
            "error_message": f"endpoint type {request.endpoint_type}; this port serves {_BROKERS}",
            "cluster_id": cluster.cluster_id,
            "endpoint_type": _BROKERS,
            "brokers": (),
        }
    wants_operations = request.include_cluster_authorized_operations
    return {
        "error_code": ErrorCode.none,
        "endpoint_type": _BROKERS,
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.controller_id,
        "brokers": [
            {
                "broker_id": node.node_id,
                "host": node.host,
                "port": node.kafka_port,
                "rack": node.rack,
                "is_fenced": node in cluster.fenced,
            }
            for node in cluster.brokers + (cluster.fenced if request.include_fenced_brokers else ())
        ],
        "cluster_authorized_operations": (
            operations_on_cluster(context) if wants_operations else NOT_ASKED_FOR
        ),
    }


OPERATION = Operation(
    api_key=60,
    name="DescribeCluster",
    min_version=0,
    max_version=2,
    handle=handle,
    # Brokers are told to anyone; what is left out are the allowed operations.
    needs=(Need(Resource.CLUSTER, Verb.DESCRIBE, refused=Refused.LEFT_OUT),),
    only_reads=True,
)
