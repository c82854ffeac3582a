"""Idempotent and transactional producing for doors whose clients have no producer of their own.

The client keeps its identity (transactional id, producer id, epoch) and sends it along; all else is
with the transaction coordinator and the partitions, so nothing is lost when a broker restarts.
Every end of a transaction brings a new epoch (transaction version 2, KIP-890).

State: none but locks. Concurrency: the event loop.
"""
