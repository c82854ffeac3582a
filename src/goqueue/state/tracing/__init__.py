"""Message tracing, the pure part: what is noted of a message, which messages, and how it is found.

Nothing here knows a clock, a file or a socket. `SpanRing` and `Throttle` are owned by the broker's
tracer and change on its event loop only; everything else is functions and frozen values.
"""
