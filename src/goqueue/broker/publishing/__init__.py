"""What comes in: checked against schemas, its delayed part kept, the rest appended.

State: none; partitions, delays and schemas have it. Concurrency: the event loop. Who must wait
before the append holds the partition's turn, so that nobody overtakes.
"""
