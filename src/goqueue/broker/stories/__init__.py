"""The stories of messages as all brokers of a cluster noted them.

A message may be published through one broker, stored by another, and read from a third one that
leads after it: each notes what it did. Purpose: queries are answered from the notes of all of them,
and brokers tell each other what one of them could not note otherwise. State: what is not told yet.
Concurrency: the event loop; spans are looked for and put together in tracing's thread.
"""
