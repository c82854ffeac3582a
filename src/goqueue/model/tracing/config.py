"""Settings of message tracing, for the broker and for its topics."""

from dataclasses import dataclass
from typing import Final

from goqueue.model.settings import INT32_MAX, setting

_MIB: Final = 1024 * 1024
_DAY_MS: Final = 24 * 60 * 60 * 1000
# A topic without a rate of its own takes the broker's.
AS_BROKER: Final = -1.0


@dataclass(frozen=True, kw_only=True)
class TracingSettings:
    """Of a broker."""

    tracing_enabled: bool = setting(
        True,
        doc="Follow some messages from publish to acknowledgement; topics can opt out.",
    )
    tracing_sampling_rate: float = setting(
        0.01,
        minimum=0,
        maximum=1,
        doc="The share of messages that is traced: 0 none, 0.01 one in a hundred, 1 all.",
    )
    tracing_max_messages_per_second: int = setting(
        200,
        minimum=0,
        maximum=INT32_MAX,
        doc="Traced messages noted per second; beyond, sampling gets coarser. 0 is no limit.",
    )
    tracing_follow_producers: bool = setting(
        True,
        doc="Trace messages whose traceparent header says that the producer sampled them.",
    )
    tracing_follow_max_per_second: int = setting(
        100,
        minimum=1,
        maximum=INT32_MAX,
        doc="Messages per second that are traced because their producers ask for it.",
    )
    tracing_ring_spans: int = setting(
        10_000,
        minimum=1,
        maximum=1_000_000,
        doc="The newest spans, kept in memory.",
    )
    tracing_file_enabled: bool = setting(
        True,
        doc="Write spans as lines of JSON to files in the folder traces of the data directory.",
    )
    tracing_file_max_bytes: int = setting(
        10 * _MIB,
        minimum=1_024,
        # A query holds one file in memory, and reads no more than this in all.
        maximum=128 * _MIB,
        doc="A trace file that has reached this size is closed and a new one begun.",
    )
    tracing_file_max_files: int = setting(
        10,
        minimum=1,
        maximum=10_000,
        doc="Trace files kept; the oldest go.",
    )
    tracing_file_retention_ms: int = setting(
        7 * _DAY_MS,
        minimum=-1,
        doc="Trace files not written to for this long go; -1 is no limit.",
    )
    tracing_console_enabled: bool = setting(
        False,
        doc="Write spans as lines of JSON to standard output.",
    )
    tracing_otlp_endpoint: str = setting(
        "",
        # Whoever receives spans may want a token in it.
        is_secret=True,
        doc="Where to send spans by OTLP over HTTP, such as http://localhost:4318/v1/traces.",
    )


@dataclass(frozen=True, kw_only=True)
class TopicTracingSettings:
    """Of a topic."""

    tracing_enabled: bool = setting(
        True,
        doc="Whether messages of the topic are traced, if the broker traces at all.",
    )
    tracing_sampling_rate: float = setting(
        AS_BROKER,
        minimum=AS_BROKER,
        maximum=1,
        doc="The share of the topic's messages that is traced; -1 is the broker's rate.",
    )
