"""The transaction coordinator as a pure machine (KIP-98, KIP-360, KIP-588, KIP-890).

Purpose: who may write under a transactional id, what a transaction covers, and how it ends.
State: `TransactionMachine` owns the transactional ids of one partition of `__transaction_state`,
and through `TransactionGroups` the groups whose transactions end together.
Concurrency: none of its own; the runtime calls one command at a time and replays its records.
Left out on purpose: two-phase commit by outside coordinators (KIP-939).
"""
