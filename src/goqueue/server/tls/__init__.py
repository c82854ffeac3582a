"""Certificates: made, loaded, and loaded again while the broker runs.

Purpose: `reloading` holds what the doors use at the moment (`contexts`), and swaps it when files
change; open connections keep what they began with, unless their clients' certificates no longer
count (`client_trust`). `making` and `revoking` are for `goqueue secure`. State is the reloader's
and changes on the event loop; files are read in a thread.
"""
