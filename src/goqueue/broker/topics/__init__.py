"""Topics and settings in the metadata, and the follower that keeps our view of them.

Purpose: topics are made, grown, configured and deleted here, and settings of topics, groups and
brokers looked up and changed. State: none but the image of the metadata, which the follower
replaces as a whole; the metadata store has it. Concurrency: the event loop; changes of one key at
the same time are decided by the store, and the loser tries again.
"""
