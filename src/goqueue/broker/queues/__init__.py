"""Topics read as queues: leases, acknowledgements, dead letters; and what SQS adds to them.

State: queues in `__queue_state`; attributes of SQS queues and move tasks in the metadata store;
deduplication ids of FIFO queues in the queues' own topics. Concurrency: the event loop.
"""
