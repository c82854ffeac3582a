"""Clients that live in the broker: group members and producers of HTTP callers."""
