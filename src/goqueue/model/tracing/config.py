"""Settings of message tracing, for the broker and for its topics."""

from typing import Final

from goqueue.model.settings import INT32_MAX, Setting, SettingType

_MIB: Final = 1024 * 1024
_DAY_MS: Final = 24 * 60 * 60 * 1000
# A topic without a rate of its own takes the broker's.
AS_BROKER: Final = -1.0

TRACING_BROKER_SETTINGS: Final = (
    Setting(
        name="tracing.enabled",
        type=SettingType.BOOLEAN,
        default=True,
        doc="Follow some messages from publish to acknowledgement; topics can opt out.",
    ),
    Setting(
        name="tracing.sampling.rate",
        type=SettingType.DOUBLE,
        default=0.01,
        minimum=0,
        maximum=1,
        doc="The share of messages that is traced: 0 none, 0.01 one in a hundred, 1 all.",
    ),
    Setting(
        name="tracing.max.messages.per.second",
        type=SettingType.INT,
        default=200,
        minimum=0,
        maximum=INT32_MAX,
        doc="Traced messages noted per second; beyond, sampling gets coarser. 0 is no limit.",
    ),
    Setting(
        name="tracing.follow.producers",
        type=SettingType.BOOLEAN,
        default=True,
        doc="Trace messages whose traceparent header says that the producer sampled them.",
    ),
    Setting(
        name="tracing.follow.max.per.second",
        type=SettingType.INT,
        default=100,
        minimum=1,
        maximum=INT32_MAX,
        doc="Messages per second that are traced because their producers ask for it.",
    ),
    Setting(
        name="tracing.ring.spans",
        type=SettingType.INT,
        default=10_000,
        minimum=1,
        maximum=1_000_000,
        doc="The newest spans, kept in memory.",
    ),
    Setting(
        name="tracing.file.enabled",
        type=SettingType.BOOLEAN,
        default=True,
        doc="Write spans as lines of JSON to files in the folder traces of the data directory.",
    ),
    Setting(
        name="tracing.file.max.bytes",
        type=SettingType.INT,
        default=10 * _MIB,
        minimum=1_024,
        # A query holds one file in memory, and reads no more than this in all.
        maximum=128 * _MIB,
        doc="A trace file that has reached this size is closed and a new one begun.",
    ),
    Setting(
        name="tracing.file.max.files",
        type=SettingType.INT,
        default=10,
        minimum=1,
        maximum=10_000,
        doc="Trace files kept; the oldest go.",
    ),
    Setting(
        name="tracing.file.retention.ms",
        type=SettingType.LONG,
        default=7 * _DAY_MS,
        minimum=-1,
        doc="Trace files not written to for this long go; -1 is no limit.",
    ),
    Setting(
        name="tracing.console.enabled",
        type=SettingType.BOOLEAN,
        default=False,
        doc="Write spans as lines of JSON to standard output.",
    ),
    Setting(
        name="tracing.otlp.endpoint",
        type=SettingType.STRING,
        default="",
        doc="Where to send spans by OTLP over HTTP, such as http://localhost:4318/v1/traces.",
    ),
)

TRACING_TOPIC_SETTINGS: Final = (
    Setting(
        name="tracing.enabled",
        type=SettingType.BOOLEAN,
        default=True,
        doc="Whether messages of the topic are traced, if the broker traces at all.",
    ),
    Setting(
        name="tracing.sampling.rate",
        type=SettingType.DOUBLE,
        default=AS_BROKER,
        minimum=AS_BROKER,
        maximum=1,
        doc="The share of the topic's messages that is traced; -1 is the broker's rate.",
    ),
)
