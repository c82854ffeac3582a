"""Topics that are split under load: 3 to 6 to 12 partitions, read by groups of every kind.

`python -m tests.crash.splits --rounds 10` makes 20 splits; `--cluster` on three brokers, `--kill`
with a broker that is killed in the middle of each.
"""
