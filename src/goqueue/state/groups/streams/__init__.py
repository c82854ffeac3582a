"""Streams groups (KIP-1071): groups of Kafka Streams applications, which the broker assigns tasks.

`topology.py` finds out from a topology and the topics how many tasks there are and which topics are
missing, `assignor.py` gives the tasks to members, `group.py` is the durable state and `protocol.py`
the commands. Members come to their targets as those of consumer groups do, by `reconcile`; owned
and driven by the group coordinator, see the package above.
"""
