"""The schema registry of this node, and validation of what is published.

Purpose: registering, looking up and comparing schemas; checking records against them. State: what
is registered is a machine on the topic `_schemas`; parsed and compiled schemas are remembered.
Concurrency: the event loop. Schemas are parsed and compared in processes of their own, and payloads
whose check may take long are checked in another. Threads make validators and take large batches
apart.
"""
