"""Every target by its name, with the packages and modules that a fuzzer watches while it runs."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from tests.fuzz.target import Target

_BATCHES: Final = (
    "goqueue.model.batch",
    "goqueue.model.batch_editing",
    "goqueue.model.control",
    "goqueue.model.records",
    "goqueue.model.unpacking",
)

_REGISTRY: Final = ("goqueue.broker.schemas.process", "goqueue.schema_formats.formats")

_BROKER: Final = ("goqueue.broker", "goqueue.service", "goqueue.state")

WATCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "bearer_tokens": ("goqueue.broker.security.oauth", "jwt.api_jws", "jwt.api_jwt"),
    "header_search": ("goqueue.broker.partitions.feature_headers", "goqueue.model.byte_pattern"),
    "kafka_door": (*_BROKER, "goqueue.doors.kafka"),
    "kafka_requests": ("goqueue.doors.kafka.wire", "goqueue.doors.kafka.exchange"),
    "member_protocol": ("goqueue.model.groups.consumer_protocol",),
    "queue_policies": ("goqueue.model.queues", "goqueue.model.security.rules"),
    "record_batches": (
        *_BATCHES,
        "goqueue.broker.partitions.feature_headers",
        "goqueue.broker.partitions.intake",
        "goqueue.doors.kafka.produced_batch",
    ),
    "registry_avro": (*_REGISTRY, "goqueue.schema_formats.avro"),
    "registry_json": (*_REGISTRY, "goqueue.schema_formats.json_schema"),
    "registry_protobuf": (*_REGISTRY, "goqueue.schema_formats.protobuf"),
    "sasl_messages": ("goqueue.state.security.sasl",),
    "signed_requests": ("goqueue.doors.sqs.signature",),
    "sqs_requests": ("goqueue.doors.sqs", "goqueue.model.queues"),
    "stored_state": (
        "goqueue.broker.partitions.lane_ledger",
        "goqueue.metadata",
        "goqueue.state",
        "goqueue.storage",
    ),
    "topic_regexes": ("goqueue.state.groups.topic_regex",),
    "web_door": (
        *_BROKER,
        "goqueue.doors.http",
        "goqueue.doors.registry",
        "goqueue.doors.sqs",
        "goqueue.doors.web",
    ),
    "written_settings": (
        "goqueue.model.settings",
        "goqueue.model.topic_config",
        "goqueue.model.units",
    ),
}


def load_target(name: str) -> Target:
    """Imported when it is asked for: what a fuzzer watches must not be loaded before it looks."""
    module = import_module(f"tests.fuzz.targets.{name}")
    target: Target = module.TARGET
    return target
