"""What one partition remembers of its producers: sequences, epochs and open transactions.

Purpose: exactly-once appends (KIP-98, KIP-360, KIP-890) and the last stable offset.
State: each partition owns one `PartitionProducers`, rebuilt from a snapshot and the batch headers
after it. Concurrency: pure and single-threaded; the partition calls it on the event loop.
"""
