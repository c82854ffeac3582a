"""Options of Kafka's own clients, which queries bring along from Spark's Kafka source and sink.

Those that tune Java's client, or ask for what is done here anyway, are taken and have no effect.
Those that would change what is read or written are refused with the reason.
"""

from collections.abc import Mapping
from typing import Final

_BOTH: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
CONSUMER_WITHOUT_EFFECT: Final = _BOTH | {
    "allow.auto.create.topics",
    "check.crcs",  # they always are
    "client.rack",
    "exclude.internal.topics",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
}
PRODUCER_WITHOUT_EFFECT: Final = _BOTH | {
    "acks",  # always of all
    "buffer.memory",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "enable.idempotence",  # always
    "linger.ms",  # tasks have all rows at once
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "retries",
}

_JAVA: Final = "it names classes of Java, which are not run here"
# By the option's name, or by its beginning where that ends with a dot.
_NEVER: Final = {
    "interceptor.classes": _JAVA,
    "config.providers": _JAVA,
    "sasl.": "say username and password (or password.file), and sasl.mechanism if it is not "
    "SCRAM-SHA-256; or name a profile",
    "ssl.": "key stores of Java are not read here; say ca.file, and certificate.file and key.file, "
    "as PEM files; or name a profile",
}
CONSUMER_REFUSED: Final[Mapping[str, str]] = _NEVER | {
    "auto.offset.reset": "where reading begins is said by startingOffsets, and failOnDataLoss says "
    "what to do about offsets that are gone",
    "enable.auto.commit": "a query's offsets are in its checkpoint; how far it is, is always "
    "committed to its group",
    "auto.commit.interval.ms": "a query's offsets are in its checkpoint",
    "key.deserializer": "say key.format=string, avro, json or protobuf",
    "value.deserializer": "say value.format=string, avro, json or protobuf",
}
PRODUCER_REFUSED: Final[Mapping[str, str]] = _NEVER | {
    "key.serializer": "a key is written as the column key has it, text or bytes",
    "value.serializer": "a value is written as the column value has it, text or bytes",
    "transactional.id": "tasks have ids of their own; name a batch write by transaction.id",
    "partitioner.class": _JAVA + "; the column partition chooses",
    "partitioner.ignore.keys": "keys choose the partition; leave key null, or fill partition",
}


def refusal(name: str, refused: Mapping[str, str]) -> str | None:
    """Why an option with this name, in lower case and without `kafka.`, is not taken."""
    for known, reason in refused.items():
        if name == known or (known.endswith(".") and name.startswith(known)):
            return reason
    return None
