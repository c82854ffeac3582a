"""Runs the broker: partitions over logs, waiting fetches, flushing, topics, the broker service.

Owns all partitions of this node and the view of the metadata. Everything runs on one event loop;
only fsync and reads of cold data go to worker threads.
"""
