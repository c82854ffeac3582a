"""The one doorway into the broker: every operation that a door may ask for, with its caller.

Purpose: doors import this package and `model`, nothing else. An operation takes the caller, asks
`access.py` for the rights it needs, asks `routing.py` who leads, and calls the broker with them.
State: none; the node has it. Concurrency: everything runs on the broker's event loop.
"""
