"""Group members that live in the broker, for clients that do not speak a group protocol.

They join the same groups as Kafka clients, through the same coordinator. Owns what such a client
would keep in its memory: its assignment, its positions, when it last committed (`member.py`).
Bounded, and lost with the process: a client then joins again. Event loop only.
"""
