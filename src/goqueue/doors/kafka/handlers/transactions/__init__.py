"""Identities of producers, and transactions from begin to end."""
