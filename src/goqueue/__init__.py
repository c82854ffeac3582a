"""GoQueue: one broker that is a Kafka-style log, a work queue and a scheduler."""

__version__ = "0.1.0"
