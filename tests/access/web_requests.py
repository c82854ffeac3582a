"""A request for every HTTP route, registry route and SQS action, each naming the canaries.

A route or action that has no request here fails the tests: whoever adds one adds its line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.access.canaries import (
    ARN,
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    CONTEXT,
    FIFO_QUEUE,
    GROUP,
    QUEUE_GROUP,
    REDRIVE_POLICY,
    SUBJECT,
    TOPIC,
    TRANSACTIONAL_ID,
    URL,
    World,
)


@dataclass(frozen=True, slots=True)
class WebRequest:
    path: str
    body: Any = None


Make = Callable[[World], WebRequest]
# Several where one request does not need all that the route may need.
Makes = tuple[Make, ...]


def _plain(path: str, body: Any = None) -> Makes:
    return (lambda _: WebRequest(path, body),)


def _made(*makes: Make) -> Makes:
    return makes


_MESSAGE: Final = {"value": "from nobody"}
_MEMBER: Final = {"memberId": "nobody"}
_SCHEMA: Final = {"schema": '"string"'}
_REFERRING: Final = {
    **_SCHEMA,
    "references": [{"name": "other", "subject": SUBJECT, "version": 1}],
}


def _settle(path: str, **more: Any) -> Makes:
    return _made(
        lambda w: WebRequest(path, {"group": QUEUE_GROUP, "receipts": [w.receipt], **more})
    )


def _in_transaction(path: str, **more: Any) -> Makes:
    return _made(lambda w: WebRequest(path, {**w.producer, **more}))


_RULE: Final = {
    "resource": "topic",
    "name": TOPIC,
    "principal": "User:canary-user",
    "operation": "read",
}

HTTP: Final[Mapping[tuple[str, str], Makes]] = {
    ("POST", "/topics"): _plain("/topics", {"name": "canary-new"}),
    ("GET", "/topics"): _plain("/topics"),
    ("GET", "/topics/{name:str}"): _plain(f"/topics/{TOPIC}"),
    ("PATCH", "/topics/{name:str}"): (
        *_plain(f"/topics/{TOPIC}", {"partitions": 9}),
        *_plain(f"/topics/{TOPIC}", {"config": {"retention.ms": "1"}}),
    ),
    ("DELETE", "/topics/{name:str}"): _plain(f"/topics/{TOPIC}"),
    ("POST", "/topics/{name:str}/split"): _plain(f"/topics/{TOPIC}/split", {"partitions": 9}),
    ("GET", "/topics/{name:str}/layout"): _plain(f"/topics/{TOPIC}/layout"),
    ("POST", "/topics/{name:str}/messages"): (
        *_plain(f"/topics/{TOPIC}/messages", _MESSAGE),
        *_plain(f"/topics/{TOPIC}/messages/", _MESSAGE),
        *_plain(f"/topics/{TOPIC}/messages", {**_MESSAGE, "delay": 3_600_000}),
        # One that would be made.
        *_plain("/topics/canary-published/messages", _MESSAGE),
    ),
    ("GET", "/topics/{name:str}/partitions/{partition:int}/messages"): (
        *_plain(f"/topics/{TOPIC}/partitions/0/messages?offset=0"),
        *_plain(f"/topics/{TOPIC}/partitions/0/messages?timestamp=0"),
    ),
    ("GET", "/topics/{name:str}/partitions/{partition:int}/count"): (
        *_plain(f"/topics/{TOPIC}/partitions/0/count"),
        *_plain(f"/topics/{TOPIC}/partitions/0/count?from=0&to=1&isolation=read_uncommitted"),
    ),
    ("GET", "/groups"): _plain("/groups"),
    ("GET", "/groups/{group:str}"): (
        *_plain(f"/groups/{GROUP}"),
        *_plain(f"/groups/{CONSUMER_GROUP}"),
        *_plain(f"/groups/{CLASSIC_GROUP}"),
    ),
    ("DELETE", "/groups/{group:str}"): _plain(f"/groups/{GROUP}"),
    # A member that joins after all stays for as long as the tests look for changes.
    ("POST", "/groups/{group:str}/join"): _plain(
        f"/groups/{GROUP}/join", {"topics": [TOPIC], "sessionTimeoutMs": 1_800_000}
    ),
    ("POST", "/groups/{group:str}/heartbeat"): _plain(f"/groups/{GROUP}/heartbeat", _MEMBER),
    ("POST", "/groups/{group:str}/leave"): _plain(f"/groups/{GROUP}/leave", _MEMBER),
    ("POST", "/groups/{group:str}/join/cooperative"): _plain(
        f"/groups/{GROUP}/join/cooperative", {"topics": [TOPIC]}
    ),
    ("POST", "/groups/{group:str}/heartbeat/cooperative"): _plain(
        f"/groups/{GROUP}/heartbeat/cooperative", _MEMBER
    ),
    ("POST", "/groups/{group:str}/revoke"): _plain(f"/groups/{GROUP}/revoke", _MEMBER),
    ("POST", "/groups/{group:str}/leave/cooperative"): _plain(
        f"/groups/{GROUP}/leave/cooperative", _MEMBER
    ),
    ("GET", "/groups/{group:str}/cooperative"): _plain(f"/groups/{CONSUMER_GROUP}/cooperative"),
    ("GET", "/groups/{group:str}/assignment"): (
        *_plain(f"/groups/{CONSUMER_GROUP}/assignment"),
        *_plain(f"/groups/{CLASSIC_GROUP}/assignment"),
    ),
    ("GET", "/groups/{group:str}/poll"): (
        *_plain(f"/groups/{GROUP}/poll?topic={TOPIC}"),
        *_plain(f"/groups/{GROUP}/poll?memberId=nobody"),
    ),
    ("POST", "/groups/{group:str}/receive"): (
        *_plain(f"/groups/{GROUP}/receive", {"topic": TOPIC}),
        *_plain(f"/groups/{GROUP}/receive", {"memberId": "nobody"}),
    ),
    ("POST", "/groups/{group:str}/offsets"): _plain(
        f"/groups/{GROUP}/offsets",
        {"offsets": [{"topic": TOPIC, "partition": 0, "offset": 1}]},
    ),
    ("GET", "/groups/{group:str}/offsets"): _plain(f"/groups/{GROUP}/offsets"),
    ("GET", "/groups/{group:str}/rebalance/stats"): _plain(f"/groups/{GROUP}/rebalance/stats"),
    ("GET", "/rebalance/stats"): _plain("/rebalance/stats"),
    ("POST", "/producers/init"): (
        *_plain("/producers/init", {"transactionalId": TRANSACTIONAL_ID}),
        *_plain("/producers/init", {}),
    ),
    ("POST", "/producers/{producer:int}/heartbeat"): _made(
        lambda w: WebRequest(
            f"/producers/{w.producer['producerId']}/heartbeat",
            {"transactionalId": TRANSACTIONAL_ID, "epoch": w.producer["epoch"]},
        )
    ),
    ("POST", "/producers/{producer:int}/messages"): _plain(
        "/producers/7/messages", {"epoch": 0, "topic": TOPIC, "messages": [_MESSAGE]}
    ),
    ("POST", "/transactions/begin"): _in_transaction("/transactions/begin"),
    ("POST", "/transactions/publish"): _in_transaction(
        "/transactions/publish", topic=TOPIC, messages=[_MESSAGE]
    ),
    ("POST", "/transactions/add-partition"): _in_transaction(
        "/transactions/add-partition", topic=TOPIC, partition=0
    ),
    ("POST", "/transactions/offsets"): _in_transaction(
        "/transactions/offsets",
        group=GROUP,
        offsets=[{"topic": TOPIC, "partition": 0, "offset": 1}],
    ),
    ("POST", "/transactions/commit"): _in_transaction("/transactions/commit"),
    ("POST", "/transactions/abort"): _in_transaction("/transactions/abort"),
    ("GET", "/transactions"): _plain("/transactions"),
    ("GET", "/transactions/stats"): _plain("/transactions/stats"),
    ("POST", "/transactions/groups/{group:str}/commit"): _plain(
        "/transactions/groups/canary-group/commit", {"sequence": 1, "members": []}
    ),
    ("POST", "/transactions/groups/{group:str}/abort"): _plain(
        "/transactions/groups/canary-group/abort", {"sequence": 1}
    ),
    ("POST", "/transactions/groups/{group:str}/renew"): _plain(
        "/transactions/groups/canary-group/renew", {}
    ),
    ("GET", "/transactions/groups/{group:str}"): _plain("/transactions/groups/canary-group"),
    ("POST", "/messages/ack"): _settle("/messages/ack"),
    ("POST", "/messages/nack"): _settle("/messages/nack"),
    ("POST", "/messages/reject"): _settle("/messages/reject"),
    ("POST", "/messages/visibility"): _settle("/messages/visibility", timeout=1_000),
    ("GET", "/reliability/stats"): _plain("/reliability/stats"),
    ("GET", "/priority/stats"): _plain("/priority/stats"),
    ("GET", "/topics/{name:str}/dlq"): _plain(f"/topics/{TOPIC}/dlq"),
    ("POST", "/topics/{name:str}/dlq/redrive"): _plain(f"/topics/{TOPIC}/dlq/redrive", {}),
    ("GET", "/topics/{name:str}/delayed"): _plain(f"/topics/{TOPIC}/delayed"),
    ("DELETE", "/topics/{name:str}/delayed/{message_id:str}"): _made(
        lambda w: WebRequest(f"/topics/{TOPIC}/delayed/{w.delayed_id}")
    ),
    ("GET", "/delay/stats"): _plain("/delay/stats"),
    ("GET", "/traces"): _plain("/traces"),
    ("GET", "/traces/search"): _plain("/traces/search"),
    ("GET", "/traces/stats"): _plain("/traces/stats"),
    ("GET", "/traces/{trace_id:str}"): _made(lambda w: WebRequest(f"/traces/{w.trace_id}")),
    ("GET", "/traces/messages/{name:str}/{partition:int}/{offset:int}"): _plain(
        f"/traces/messages/{TOPIC}/0/0"
    ),
    ("POST", "/backups"): _plain("/backups", {"ttlMs": 1_000}),
    ("PUT", "/backups/{backup:str}"): _plain("/backups/nobody", {"ttlMs": 1_000}),
    ("POST", "/backups/{backup:str}/cut"): _plain("/backups/nobody/cut", {"withMetadata": True}),
    ("DELETE", "/backups/{backup:str}"): _plain("/backups/nobody"),
    ("GET", "/cluster/settings"): (
        *_plain("/cluster/settings"),
        *_plain("/cluster/settings?node=0"),
    ),
    ("PATCH", "/cluster/settings"): _plain(
        "/cluster/settings", {"config": {"max.connections": "9000"}}
    ),
    ("GET", "/quotas"): _plain("/quotas"),
    ("PATCH", "/quotas"): _plain(
        "/quotas", {"changes": [{"user": "nobody", "set": {"producer_byte_rate": 1_000}}]}
    ),
    ("GET", "/quotas/usage"): _plain("/quotas/usage"),
    ("GET", "/clients/metrics"): _plain("/clients/metrics"),
    ("GET", "/clients/subscriptions"): _plain("/clients/subscriptions"),
    ("PUT", "/clients/subscriptions/{name:str}"): _plain(
        "/clients/subscriptions/canary-metrics", {"metrics": ["*"], "match": {"client_id": "x"}}
    ),
    ("DELETE", "/clients/subscriptions/{name:str}"): _plain(
        "/clients/subscriptions/canary-metrics"
    ),
    ("GET", "/cluster/state"): _plain("/cluster/state"),
    ("GET", "/cluster/health"): _plain("/cluster/health"),
    ("GET", "/cluster/metadata"): _plain("/cluster/metadata"),
    ("GET", "/cluster/moves"): _plain("/cluster/moves"),
    ("POST", "/cluster/moves"): _plain(
        "/cluster/moves", {"moves": [{"topic": TOPIC, "partition": 0, "replicas": [0]}]}
    ),
    ("DELETE", "/cluster/moves"): _plain("/cluster/moves"),
    ("PATCH", "/cluster/moves"): _plain("/cluster/moves", {"isPaused": True}),
    ("GET", "/cluster/plans/drain/{node_id:int}"): _plain("/cluster/plans/drain/0"),
    ("GET", "/cluster/plans/rebalance"): _plain("/cluster/plans/rebalance"),
    ("PATCH", "/cluster/nodes/{node_id:int}"): _plain("/cluster/nodes/0", {"isCordoned": True}),
    ("DELETE", "/cluster/nodes/{node_id:int}"): _plain("/cluster/nodes/0"),
    ("GET", "/audit"): (
        *_plain("/audit"),
        *_plain("/audit?limit=5&principal=User:nobody&event=login"),
    ),
    ("GET", "/tenants"): _plain("/tenants"),
    ("POST", "/tenants"): _plain("/tenants", {"name": "newcomers"}),
    ("GET", "/tenants/{tenant:str}"): _plain("/tenants/newcomers"),
    ("PATCH", "/tenants/{tenant:str}"): _plain("/tenants/newcomers", {"limits": {"topics": 1}}),
    ("DELETE", "/tenants/{tenant:str}"): _plain("/tenants/newcomers"),
    ("GET", "/tenants/{tenant:str}/usage"): _plain("/tenants/newcomers/usage"),
    ("GET", "/users"): _plain("/users"),
    ("POST", "/users"): _plain("/users", {"name": "canary-user", "password": "from nobody"}),
    ("GET", "/users/{name:str}"): _plain("/users/canary-user"),
    ("PATCH", "/users/{name:str}"): (
        *_plain("/users/canary-user", {"password": "from nobody"}),
        *_plain("/users/canary-user", {"admin": True}),
    ),
    ("DELETE", "/users/{name:str}"): _plain("/users/canary-user"),
    ("GET", "/keys"): (*_plain("/keys"), *_plain("/keys?user=canary-user")),
    ("POST", "/users/{name:str}/keys"): _plain("/users/canary-user/keys", {"kind": "api"}),
    ("DELETE", "/keys/{key_id:str}"): _plain("/keys/canary-key"),
    ("GET", "/rules"): _plain("/rules"),
    ("POST", "/rules"): _plain("/rules", {"rules": [_RULE]}),
    ("DELETE", "/rules"): _plain("/rules?resource=topic"),
    ("GET", "/whoami"): _plain("/whoami"),
    ("POST", "/session"): _plain("/session", {"name": "canary-user", "password": "from nobody"}),
    ("GET", "/session"): _plain("/session"),
    ("DELETE", "/session"): _plain("/session"),
    ("GET", "/healthz"): _plain("/healthz"),
    ("GET", "/readyz"): _plain("/readyz"),
    ("GET", "/"): _plain("/"),
    ("GET", "/metrics"): _plain("/metrics"),
    ("GET", "/openapi.json"): _plain("/openapi.json"),
    ("GET", "/docs"): _plain("/docs"),
}

REGISTRY: Final[Mapping[tuple[str, str], Makes]] = {
    ("GET", ""): _plain("/"),
    ("GET", "contexts"): _plain("/contexts"),
    ("DELETE", "contexts/{context}"): _plain(f"/contexts/{CONTEXT}"),
    ("GET", "v1/metadata/id"): _plain("/v1/metadata/id"),
    ("GET", "v1/metadata/version"): _plain("/v1/metadata/version"),
    ("GET", "v1/metadata/deployment"): _plain("/v1/metadata/deployment"),
    ("GET", "subjects"): (*_plain("/subjects"), *_plain(f"/contexts/{CONTEXT}/subjects")),
    ("POST", "subjects/{subject}"): _plain(f"/subjects/{SUBJECT}", _SCHEMA),
    ("DELETE", "subjects/{subject}"): (
        *_plain(f"/contexts/{CONTEXT}/subjects/subject"),
        *_plain(f"/subjects/{SUBJECT}"),
    ),
    ("GET", "subjects/{subject}/metadata"): _plain(f"/subjects/{SUBJECT}/metadata"),
    ("GET", "subjects/{subject}/versions"): _plain(f"/subjects/{SUBJECT}/versions"),
    ("POST", "subjects/{subject}/versions"): (
        *_plain(f"/subjects/{SUBJECT}/versions", _SCHEMA),
        *_plain(f"/subjects/{SUBJECT}/versions", _REFERRING),
    ),
    ("GET", "subjects/{subject}/versions/{version}"): _plain(f"/subjects/{SUBJECT}/versions/1"),
    ("DELETE", "subjects/{subject}/versions/{version}"): _plain(f"/subjects/{SUBJECT}/versions/1"),
    ("GET", "subjects/{subject}/versions/{version}/schema"): _plain(
        f"/subjects/{SUBJECT}/versions/1/schema"
    ),
    ("GET", "subjects/{subject}/versions/{version}/referencedby"): _plain(
        f"/subjects/{SUBJECT}/versions/1/referencedby"
    ),
    ("GET", "schemas"): _plain("/schemas"),
    ("GET", "schemas/types"): _plain("/schemas/types"),
    ("GET", "schemas/stats"): _plain("/schemas/stats"),
    ("GET", "schemas/ids/{id}"): _made(lambda w: WebRequest(f"/schemas/ids/{w.schema_id}")),
    ("GET", "schemas/ids/{id}/schema"): _made(
        lambda w: WebRequest(f"/schemas/ids/{w.schema_id}/schema")
    ),
    ("GET", "schemas/ids/{id}/subjects"): _made(
        lambda w: WebRequest(f"/schemas/ids/{w.schema_id}/subjects")
    ),
    ("GET", "schemas/ids/{id}/versions"): _made(
        lambda w: WebRequest(f"/schemas/ids/{w.schema_id}/versions")
    ),
    ("GET", "schemas/guids/{guid}"): _made(lambda w: WebRequest(f"/schemas/guids/{w.schema_guid}")),
    ("GET", "schemas/guids/{guid}/ids"): _made(
        lambda w: WebRequest(f"/schemas/guids/{w.schema_guid}/ids")
    ),
    ("POST", "compatibility/subjects/{subject}/versions"): _plain(
        f"/compatibility/subjects/{SUBJECT}/versions", _SCHEMA
    ),
    ("POST", "compatibility/subjects/{subject}/versions/{version}"): _plain(
        f"/compatibility/subjects/{SUBJECT}/versions/1", _SCHEMA
    ),
    ("GET", "config"): _plain("/config"),
    ("PUT", "config"): _plain("/config", {"compatibility": "NONE"}),
    ("DELETE", "config"): _plain("/config"),
    ("GET", "config/{subject}"): _plain(f"/config/{SUBJECT}"),
    ("PUT", "config/{subject}"): (
        *_plain(f"/config/{SUBJECT}", {"compatibility": "NONE"}),
        *_plain(f"/contexts/{CONTEXT}/config", {"compatibility": "NONE"}),
    ),
    ("DELETE", "config/{subject}"): _plain(f"/config/{SUBJECT}"),
    ("GET", "mode"): _plain("/mode"),
    ("PUT", "mode"): _plain("/mode", {"mode": "READONLY"}),
    ("DELETE", "mode"): _plain("/mode"),
    ("GET", "mode/{subject}"): _plain(f"/mode/{SUBJECT}"),
    ("PUT", "mode/{subject}"): _plain(f"/mode/{SUBJECT}", {"mode": "READONLY"}),
    ("DELETE", "mode/{subject}"): _plain(f"/mode/{SUBJECT}"),
    ("POST", "associations"): _plain("/associations", {}),
    ("PUT", "associations"): _plain("/associations", {}),
    ("DELETE", "associations/resources/{resource}"): _plain("/associations/resources/x"),
    ("GET", "associations/resources/{namespace}/{resource}"): _plain("/associations/resources/x/y"),
}

Fields = Callable[[World], Mapping[str, Any]]


def _queue(**fields: Any) -> Fields:
    return lambda _: {"QueueUrl": URL, **fields}


_SENT: Final = {"MessageBody": "from nobody", "MessageGroupId": "g", "MessageDeduplicationId": "n"}

_POLICY: Final = (
    '{"Statement": {"Effect": "Allow", "Principal": {"AWS": "canary-user"}, '
    '"Action": "SQS:SendMessage", "Resource": "*"}}'
)

SQS: Final[Mapping[str, tuple[Fields, ...]]] = {
    "AddPermission": (_queue(Label="l", AWSAccountIds=["canary-user"], Actions=["SendMessage"]),),
    "CancelMessageMoveTask": (lambda w: {"TaskHandle": w.move_task},),
    "ChangeMessageVisibility": (
        lambda w: {
            "QueueUrl": URL,
            "ReceiptHandle": w.sqs_receipt,
            "VisibilityTimeout": 5,
        },
    ),
    "ChangeMessageVisibilityBatch": (
        lambda w: {
            "QueueUrl": URL,
            "Entries": [{"Id": "a", "ReceiptHandle": w.sqs_receipt, "VisibilityTimeout": 5}],
        },
    ),
    "CreateQueue": (
        lambda _: {"QueueName": "canary-new.fifo", "Attributes": {"FifoQueue": "true"}},
        # A topic that is there and would become a queue.
        lambda _: {"QueueName": TOPIC},
        lambda _: {
            "QueueName": "canary-new.fifo",
            "Attributes": {"FifoQueue": "true", "RedrivePolicy": REDRIVE_POLICY},
        },
        lambda _: {
            "QueueName": "canary-new.fifo",
            "Attributes": {"FifoQueue": "true", "Policy": _POLICY},
        },
    ),
    "DeleteMessage": (lambda w: {"QueueUrl": URL, "ReceiptHandle": w.sqs_receipt},),
    "DeleteMessageBatch": (
        lambda w: {
            "QueueUrl": URL,
            "Entries": [{"Id": "a", "ReceiptHandle": w.sqs_receipt}],
        },
    ),
    "DeleteQueue": (_queue(),),
    "GetQueueAttributes": (_queue(AttributeNames=["All"]),),
    "GetQueueUrl": (lambda _: {"QueueName": FIFO_QUEUE},),
    "ListDeadLetterSourceQueues": (_queue(),),
    "ListMessageMoveTasks": (lambda _: {"SourceArn": ARN},),
    "ListQueueTags": (_queue(),),
    "ListQueues": (lambda _: {},),
    "PurgeQueue": (_queue(),),
    "ReceiveMessage": (_queue(),),
    "RemovePermission": (_queue(Label="l"),),
    "SendMessage": (_queue(**_SENT),),
    "SendMessageBatch": (_queue(Entries=[{"Id": "a", **_SENT}]),),
    "SetQueueAttributes": (
        _queue(Attributes={"VisibilityTimeout": "9"}),
        _queue(Attributes={"RedrivePolicy": REDRIVE_POLICY}),
        _queue(Attributes={"Policy": _POLICY}),
    ),
    "StartMessageMoveTask": (lambda _: {"SourceArn": ARN},),
    "TagQueue": (_queue(Tags={"a": "b"}),),
    "UntagQueue": (_queue(TagKeys=["a"]),),
}
