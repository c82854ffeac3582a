"""Topics read as queues: leases, acknowledgements, retries and dead letters, as a pure machine.

Purpose: which messages of a partition a group has dealt with, and whom to give the others, for
share groups (KIP-932), SQS and HTTP alike.
State: `QueueMachine` owns the queues of one partition of `__queue_state`. Durable are a floor
below which all is settled, whole blocks settled above it, and for blocks that are neither, the
ranges that are settled, dying or delivered, with their counts. What waits costs nothing. Counts
are stored when a message is delivered (one small record per delivered range, in the same commit
as everything else of that turn of the event loop), so that a count of one always means a first
delivery; a lease ended by a crash is not held against the message. Leases, back-offs and credits
of lanes are volatile: after a crash everything that is not settled is ready.
The states of a message, and what moves it between them, are a table in `states.py`.
Beside it stand two small machines of SQS: `FifoWindow`, whose log is the queue itself, and
`MoveTasks`, whose records are in the metadata store.
Concurrency: none of its own; the runtime calls one command at a time and replays its records.
"""
