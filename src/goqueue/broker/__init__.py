"""The broker behind the doorway, in rooms by feature; `node` opens, wires and closes them.

Owns all partitions of this node and the view of the metadata. Operations take rights, which only
`service/security/access.py` makes, and `own_grants` for what the broker does by itself. Everything
runs on one event loop; only fsync, reads of cold data and other long work go to threads and
processes.
"""
