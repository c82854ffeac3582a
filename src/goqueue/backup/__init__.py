"""`goqueue backup`: copies of a node's or a cluster's data in a folder or an object store.

A store has objects, which are named by the SHA-256 of their content, and one manifest for each
backup, which is written last: without it there is no backup. An object is a run of record batches
of one partition as the broker stores them, so that a later backup uploads only what is new. Nothing
read from a store is trusted: sizes, checksums and names are held against limits and against the
manifest before anything is written by them.

`manifest`, `chunks`, `planning` and `pruning` are pure; `sources` know where data come from,
`stores` where they go. State belongs to the one process that runs a command; several commands
beside each other on one store are kept apart by `running`.
"""
