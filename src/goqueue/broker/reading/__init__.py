"""Topics read by offset wherever their partitions are led, for doors and rooms that do not look for
leaders themselves. Kafka's clients do: their requests are for partitions of this broker alone.

State: none. Concurrency: the event loop.
"""
