"""The controller: one broker at a time decides who leads, and admits brokers.

What is to do follows from the metadata alone (`state/controller`); here it is done, in transactions
that hold only while this broker holds `/controller`. Everything runs on the event loop, except the
planning of many partitions, which is pure and runs in a thread.
"""
