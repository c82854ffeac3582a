"""Runs quotas and the limits of tenants: what is stored of them, and what is used at this broker.

Purpose: `quotas` is the room; doors and services ask it before or after something is used. State:
the metadata's (`state/security`) and the broker's own ledger (`state/quotas`), which ends with the
process. Everything runs on the event loop. Quotas are per broker, as Kafka's are.
"""
