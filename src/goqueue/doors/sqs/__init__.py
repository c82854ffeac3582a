"""The SQS front door: the AWS SQS API on the HTTP port, in both protocols of its SDKs.

A queue is a topic of the same name, read through group `sqs` of the queue engine. Owns the queues'
entries in the metadata (attributes and tags that are no topic settings), its move tasks, and some
volatile memory; everything else is asked of the broker. Runs on the broker's event loop: requests
are recognised by header or form and answered without a web framework.
"""

from goqueue.doors.sqs.door import SqsDoor

__all__ = ["SqsDoor"]
