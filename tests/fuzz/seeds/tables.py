"""What each target begins with besides what was recorded, from tables that tests have anyway."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from tests.fuzz import corpus
from tests.fuzz.seeds import batches, doors, kafka_frames, logins, registry, sqs, stored, texts

# Labels and inputs.
Seeds = Iterable[tuple[str, bytes]]


def _numbered(inputs: Iterable[bytes]) -> Seeds:
    return ((str(number), data) for number, data in enumerate(inputs))


GENERATED: Final[Mapping[str, Any]] = {
    "bearer_tokens": logins.tokens,
    "header_search": partial(_numbered, texts.HEADERS),
    "kafka_door": doors.kafka_streams,
    "kafka_requests": kafka_frames.inputs,
    "member_protocol": partial(_numbered, texts.MEMBERS),
    "queue_policies": partial(_numbered, logins.POLICIES),
    "record_batches": batches.inputs,
    "registry_avro": partial(registry.inputs, "avro"),
    "registry_json": partial(registry.inputs, "json_schema"),
    "registry_protobuf": partial(registry.inputs, "protobuf"),
    "sasl_messages": partial(_numbered, logins.MESSAGES),
    "signed_requests": logins.signed,
    "sqs_requests": sqs.inputs,
    "stored_state": stored.inputs,
    "topic_regexes": partial(_numbered, texts.REGEXES),
    "web_door": doors.web_streams,
    "written_settings": partial(_numbered, texts.SETTINGS),
}

# Their labels are operations, routes and actions: what came since the corpus was written has a seed
# without anybody's doing.
_GROWING: Final = ("kafka_door", "kafka_requests", "sqs_requests", "web_door")


def inputs_of(target: str) -> dict[str, bytes]:
    """The corpus, and a generated seed for each label that it lacks."""
    inputs = corpus.load(target)
    if target in _GROWING:
        labels = {name.rpartition("-")[0] for name in inputs}
        for label, data in GENERATED[target]():
            if f"generated/{label}" not in labels:
                labels.add(f"generated/{label}")
                inputs[corpus.named("generated", label, data)] = data
    return inputs
