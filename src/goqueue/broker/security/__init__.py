"""Runs access: the master key, users and their passwords, rules as they are stored.

Purpose: `security` is the room; it is told when the metadata changes, and whoever has log-ins or
decisions of its own to look at again is told by it. State is the metadata's (`state/security`).
Everything runs on the event loop; what costs processor time by design (PBKDF2) runs in a thread.
"""
