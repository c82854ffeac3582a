"""Priorities of queue reads: which lane is served next, and where the messages of a lane are.

Purpose: five lanes served by deficit round robin, and a sparse index of the messages that are not
normal, so that a critical message is found without walking the backlog before it.
State: a `LaneScheduler` belongs to one queue of one group and is volatile; a `LaneIndex` belongs to
one partition of a topic, grows with its log, and is stored in chunks by whoever owns it.
Concurrency: none of its own; pure, without a clock.
"""
