"""Figures of a broker, read when somebody asks for them.

Purpose: knows where each feature keeps what it counts and times, and hands it out as values. State:
none but a look at the disk that is under way. Concurrency: what only the event loop may look at is
read there in slices, so that requests in between wait for milliseconds at most; the rest in a
thread. Whoever counts something owns the counter; it lives as long as the broker.
"""
