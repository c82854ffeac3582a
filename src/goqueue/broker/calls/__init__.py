"""One remote call for everything that a leader does on behalf of another broker.

State: connections, and calls that wait for their answers. Concurrency: the event loop.
"""
