"""The Kafka protocol over TCP.

`server` listens, `connection` turns bytes into ordered requests, `operations` is the table of what
is served, `handlers` has one file per operation (decode → broker → encode), `codec` moves messages
between bytes and Python by kio's schemas.

Owns connections and fetch sessions, both volatile. Everything runs on the broker's event loop; the
requests of one connection are answered in the order they came.
"""

from goqueue.doors.kafka.server import KafkaDoor

__all__ = ("KafkaDoor",)
