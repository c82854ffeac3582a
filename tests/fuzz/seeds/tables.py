"""What each target begins with besides what was recorded, from tables that tests have anyway."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from tests.fuzz.seeds import batches, doors, kafka_frames, registry, sqs, stored, texts

# Labels and inputs.
Seeds = Iterable[tuple[str, bytes]]


def _numbered(inputs: Iterable[bytes]) -> Seeds:
    return ((str(number), data) for number, data in enumerate(inputs))


GENERATED: Final[Mapping[str, Any]] = {
    "header_search": partial(_numbered, texts.HEADERS),
    "kafka_door": doors.kafka_streams,
    "kafka_requests": kafka_frames.inputs,
    "member_protocol": partial(_numbered, texts.MEMBERS),
    "record_batches": batches.inputs,
    "registry_avro": partial(registry.inputs, "avro"),
    "registry_json": partial(registry.inputs, "json_schema"),
    "registry_protobuf": partial(registry.inputs, "protobuf"),
    "sqs_requests": sqs.inputs,
    "stored_state": stored.inputs,
    "topic_regexes": partial(_numbered, texts.REGEXES),
    "web_door": doors.web_streams,
    "written_settings": partial(_numbered, texts.SETTINGS),
}
