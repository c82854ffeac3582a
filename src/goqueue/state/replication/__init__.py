"""One partition on several brokers: who has what, what is committed, who may lead.

Pure: a leader and a follower take messages, answers and the time, and say what to do. They own no
log, no socket and no key of the metadata store; `broker` moves the bytes, and the simulator in
`tests/sim` runs the same code on disks, networks and clocks that fail.

Safety hangs on the order of data and on compare-and-set, never on clocks: time decides only when
a change is proposed. What must hold, and where it is kept:

- High watermark (`leading.py`): the least durable end of the in-sync set, and of every set that
  was proposed and may have come true. It moves only while the set is large enough.
- Shrink and grow (`leading.py`): a change of the in-sync set counts once it was read back.
- Eligible leaders (`in_sync.py`): who leaves a set that is too small has everything committed.
- Truncation (`following.py`): by leader epochs, on the word of the current leader.
- A new leader (`leading.py`) keeps the high watermark that it had as a follower.
"""
