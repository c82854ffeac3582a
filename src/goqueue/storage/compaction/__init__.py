"""Log compaction: of all records with a key, the last one stays.

A separate process copies closed segments without what later records replaced (`copying`, run by
`python -m goqueue.storage.compaction`). It only writes files with the ending `.cleaned`. The
appending thread then swaps them in (`swapping`), and a start completes a swap that a crash cut
short. The offsets of what is gone are covered by batches without records, so that a compacted
segment is read, verified and recovered like any other.

`LogCompaction` owns what is remembered between runs, in a small file beside the log. Which thread
may call what is said at each of its methods.
"""
