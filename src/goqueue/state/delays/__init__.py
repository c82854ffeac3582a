"""Delayed messages as pure state: a timer wheel, the table of what is pending, and its log records.

One `DelayMachine` per partition of a topic owns its state and is used from the event loop only.
Payloads are not here: an entry knows the offset of its message in the log, which is a partition of
the topic's companion. Only `replay` changes durable state, live and in recovery alike; time and
topics are passed in.
"""
