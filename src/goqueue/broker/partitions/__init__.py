"""Partitions on this node: appending, committing, reading, retention and compaction.

Purpose: `log` has the operations that callers ask for by offset; `leading` finds the partitions
that this node leads, for them and for every feature; `hosting` has all that lie here, for upkeep.
State: each `Partition` owns its log, what it remembers of producers and lanes, and who waits for
it. Concurrency: the event loop; fsync and reads of cold data go to threads, compaction to a
process.
"""
