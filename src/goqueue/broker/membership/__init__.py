"""This broker as a member of a cluster: its identity, its registration under a lease, its end.

A node of one has no part in it. Everything here runs on the event loop; only the lease is kept
alive by a thread of the metadata store.
"""
