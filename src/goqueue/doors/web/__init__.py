"""What the doors that speak HTTP have in common; each of them answers in its own protocol.

Purpose: who asks, reading bodies within limits, waiting until the client is gone, sending answers.
State: a door's `BodyReader` knows how much it holds. Concurrency: event loop only.
"""
