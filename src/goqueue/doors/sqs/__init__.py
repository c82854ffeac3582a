"""The SQS front door: the AWS SQS API on the HTTP port, in both protocols of its SDKs.

A queue is a topic of the same name, read through group `sqs` of the queue engine. Owns no state:
queues and their attributes, deduplication ids and move tasks are asked of the services. Runs on the
broker's event loop: requests are recognised by header or form and answered without a web framework.
"""

from goqueue.doors.sqs.door import SqsDoor

__all__ = ["SqsDoor"]
