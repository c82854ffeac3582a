"""The schema registry of this node, and validation of what is published.

Purpose: registering, looking up and comparing schemas; checking records against them. State: what
is registered is a machine on the topic `_schemas`; parsed and compiled schemas are remembered.
Concurrency: event loop only, but schemas are parsed and compared in a process of their own, and
validators made and large batches taken apart in threads.
"""
