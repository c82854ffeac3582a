"""The one doorway into the broker: every operation that a door may ask for, with its caller.

Purpose: doors import this package and `model`, nothing else. An operation takes the caller, asks
`security/access.py` for the rights it needs and calls the broker with them. Who leads is decided
in the broker, by `LedPartitions`, where every operation finds its partition; `routing.py` asks it.
State: none; the node has it. Concurrency: everything runs on the broker's event loop.
"""
