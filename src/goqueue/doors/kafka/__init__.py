"""The Kafka protocol over TCP.

`server` listens, `connection` turns bytes into requests and answers into bytes, `handlers` has the
table of what is served and one file per operation (decode → service → encode), `wire` moves
messages between bytes and Python by kio's schemas.

Owns connections, fetch sessions and share sessions, all volatile. Everything runs on the broker's
event loop. The requests of one connection run one after another and are answered in the order they
came; only those of operations that overlap (Produce) run side by side.
"""

from goqueue.doors.kafka.server import KafkaDoor

__all__ = ("KafkaDoor",)
