"""Requests of every version of every Kafka operation, made from what the operation declares.

Where its needs say that a resource is named, the request names the canary; every list has one
element, everything else its default. Operations whose request would not make sense so have words of
their own below.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kio.index import load_request_schema

from goqueue.doors.kafka.operation import Operation
from goqueue.doors.kafka.wire.fields import Field, fields_of
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import Resource
from goqueue.service.needs import Need
from tests.access.canaries import (
    CONSUMER_GROUP,
    EMPTY_SHARE_GROUP,
    GROUP,
    NAMES,
    SHARE_GROUP,
    STREAMS_GROUP,
    TOPIC,
    USER,
    World,
)

# Values by the path of the field.
Words = Mapping[str, Any]


class Variant(NamedTuple):
    """A request of its own for one operation, from a version on.

    `before`: an operation that must have been called on the same connection, with its words.
    """

    words: Words
    since: int = 0
    before: tuple[tuple[str, Words], ...] = ()


_BATCH: Final = bytes(encode_records([NewRecord(value=b"from nobody")], now_ms=1_000))
_TOPIC_CONFIG, _BROKER_CONFIG, _LOGGER_CONFIG, _CLIENT_METRICS, _GROUP_CONFIG = 2, 4, 8, 16, 32
_GROUP_KEY, _TRANSACTION_KEY, _SHARE_KEY = 0, 1, 2
_MEMBER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


def _config_resources(**words: Any) -> tuple[Variant, ...]:
    return tuple(
        Variant({"resources.resource_type": kind, "resources.resource_name": name, **words})
        for kind, name in (
            (_TOPIC_CONFIG, TOPIC),
            (_BROKER_CONFIG, "0"),
            (_LOGGER_CONFIG, "0"),
            (_CLIENT_METRICS, "canary-metrics"),
            (_GROUP_CONFIG, GROUP),
        )
    )


def _keys(kind: int, name: str, since: int) -> Variant:
    return Variant({"key_type": kind, "key": name, "coordinator_keys": (name,)}, since)


_SHARE_SESSION: Final = {
    "group_id": SHARE_GROUP,
    "member_id": _MEMBER_ID,
    "max_bytes": 1_000,
    "batch_size": 10,
    "max_records": 10,
    "forgotten_topics_data": (),
    "topics.partitions.acknowledgement_batches": (),
}
_SHARE_ACK: Final = {
    **_SHARE_SESSION,
    "share_session_epoch": 1,
    "topics.partitions.acknowledgement_batches": (
        {"first_offset": 0, "last_offset": 0, "acknowledge_types": (1,)},
    ),
}
_EMPTY_SHARE_GROUP: Final = {"group_id": EMPTY_SHARE_GROUP, "groups.group_id": EMPTY_SHARE_GROUP}

# A new application, whose changelog would be made.
_STREAMS_JOIN: Final = {
    "group_id": "canary-new-streams-group",
    "member_id": _MEMBER_ID,
    "rebalance_timeout": 60_000,
    "process_id": "process",
    "topology.subtopologies": (
        {
            "subtopology_id": "0",
            "source_topics": (TOPIC,),
            "state_changelog_topics": (
                {
                    "name": "canary-new-changelog",
                    "partitions": 0,
                    "replication_factor": 0,
                    "topic_configs": (),
                },
            ),
            "repartition_source_topics": (),
            "copartition_groups": (),
        },
    ),
    "active_tasks": (),
    "standby_tasks": (),
    "warmup_tasks": (),
    "user_endpoint": None,
    "client_tags": (),
    "task_offsets": (),
    "task_end_offsets": (),
}

_ANY_RULE: Final = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}

VARIANTS: Final[Mapping[str, tuple[Variant, ...]]] = {
    "DescribeAcls": (Variant(_ANY_RULE),),
    "DeleteAcls": (Variant({f"filters.{name}": value for name, value in _ANY_RULE.items()}),),
    "CreateAcls": (
        Variant(
            {
                "creations.resource_type": 2,
                "creations.resource_name": "canary-topic",
                "creations.resource_pattern_type": 3,
                "creations.principal": "User:canary",
                "creations.host": "*",
                "creations.operation": 3,
                "creations.permission_type": 3,
            }
        ),
    ),
    "Produce": (
        Variant(
            {"topic_data.partition_data.records": _BATCH, "acks": -1, "transactional_id": None}
        ),
        Variant({"topic_data.partition_data.records": _BATCH, "acks": -1}),
    ),
    # As a reader, and as a broker that copies.
    "Fetch": (
        Variant({}),
        Variant({"replica_state.replica_id": 1, "session_epoch": 0}, since=15),
    ),
    "InitProducerId": (Variant({}), Variant({"transactional_id": None})),
    "DescribeConfigs": _config_resources(),
    "AlterConfigs": _config_resources(**{"resources.configs": ()}),
    "IncrementalAlterConfigs": _config_resources(**{"resources.configs": ()}),
    "FindCoordinator": (
        _keys(_GROUP_KEY, GROUP, 0),
        _keys(_TRANSACTION_KEY, NAMES[Resource.TRANSACTIONAL_ID], 1),
        _keys(_SHARE_KEY, f"{GROUP}:{_MEMBER_ID}:0", 6),
    ),
    "DescribeCluster": (
        Variant({}),
        Variant({"include_cluster_authorized_operations": True}),
    ),
    # Every topic by a list that is not there; one by name, one that would be made; one by id.
    "Metadata": (
        Variant({"topics": None}, since=1),
        Variant({"topics.topic_id": None}),
        Variant(
            {
                "topics.topic_id": None,
                "topics.name": "canary-new",
                "allow_auto_topic_creation": True,
            }
        ),
        Variant({"topics.name": None}, since=12),
    ),
    "CreateTopics": (
        Variant(
            {
                "topics.name": "canary-new",
                "topics.num_partitions": 1,
                "topics.replication_factor": 1,
                "topics.assignments": (),
                "topics.configs": (),
            }
        ),
    ),
    "DeleteTopics": (
        Variant({"topics.topic_id": None}),
        Variant({"topics.name": None}, since=6),
    ),
    "CreatePartitions": (Variant({"topics.count": 9, "topics.assignments": None}),),
    "ConsumerGroupDescribe": (Variant({"group_ids": (CONSUMER_GROUP,)}),),
    "ShareGroupDescribe": (Variant({"group_ids": (SHARE_GROUP,)}),),
    "StreamsGroupHeartbeat": (Variant({}), Variant(_STREAMS_JOIN)),
    "StreamsGroupDescribe": (Variant({"group_ids": (STREAMS_GROUP,)}),),
    "ShareFetch": (Variant(_SHARE_SESSION),),
    "ShareAcknowledge": (Variant(_SHARE_ACK, before=(("ShareFetch", _SHARE_SESSION),)),),
    "CreateDelegationToken": (
        Variant({"owner_principal_type": "User", "renewers.principal_type": "User"}),
    ),
    # All there are, and those of one owner.
    "DescribeDelegationToken": (
        Variant({"owners": None}),
        Variant({"owners.principal_type": "User", "owners.principal_name": USER}),
    ),
    "DescribeUserScramCredentials": (Variant({"users": None}), Variant({"users.name": USER})),
    "AlterUserScramCredentials": (
        Variant({"deletions.name": USER, "deletions.mechanism": 1, "upsertions": ()}),
        Variant(
            {
                "deletions": (),
                "upsertions.name": USER,
                "upsertions.mechanism": 1,
                "upsertions.iterations": 4_096,
                "upsertions.salt": b"salt",
                "upsertions.salted_password": bytes(32),
            }
        ),
    ),
    "DescribeShareGroupOffsets": (Variant(_EMPTY_SHARE_GROUP),),
    "AlterShareGroupOffsets": (Variant(_EMPTY_SHARE_GROUP),),
    "DeleteShareGroupOffsets": (Variant(_EMPTY_SHARE_GROUP),),
}


def variants(operation: Operation, version: int) -> list[Variant]:
    every = VARIANTS.get(operation.name, (Variant({}),))
    return [variant for variant in every if variant.since <= version]


def names_of(need: Need) -> list[str]:
    return [path.strip() for path in need.names.split(",") if path.strip()]


def is_named_in(operation: Operation, version: int, need: Need) -> bool:
    """Whether the version's request has a field for what the need is about."""
    entity: Any = load_request_schema(operation.api_key, version)
    return not need.names or any(_has(entity, path.split(".")) for path in names_of(need))


def _has(entity: Any, path: list[str]) -> bool:
    found = {field.name: field for field in fields_of(entity)}.get(path[0])
    if found is None:
        return False
    return len(path) == 1 or (found.entity is not None and _has(found.entity, path[1:]))


def request(operation: Operation, version: int, words: Words, world: World) -> dict[str, Any]:
    named = {path: need.resource for need in operation.needs or () for path in names_of(need)}
    entity: Any = load_request_schema(operation.api_key, version)
    return _filled(entity, "", named, words, world)


def _filled(
    entity: Any, prefix: str, named: Mapping[str, Resource], words: Words, world: World
) -> dict[str, Any]:
    return {
        field.name: _value(field, f"{prefix}{field.name}", named, words, world)
        for field in fields_of(entity)
    }


def _value(
    field: Field, path: str, named: Mapping[str, Resource], words: Words, world: World
) -> Any:
    if path in words:
        return words[path]
    if field.entity is not None:
        inner = _filled(field.entity, f"{path}.", named, words, world)
        return [inner] if field.is_array else inner
    if path in named:
        one: Any = world.topic_id if field.kafka_type == "uuid" else NAMES[named[path]]
        return [one] if field.is_array else one
    if field.is_array and "partition" in field.name and field.kafka_type == "int32":
        return [0]
    return field.default
