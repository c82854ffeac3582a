"""Copies of partitions on several brokers: who leads and follows here, and the bytes in between.

`state/replication` decides; this room gives each partition its role when the metadata changes
(`roles.py`), fetches what this broker follows (`fetcher.py`), serves what others follow
(`serving.py`), and asks the metadata store for changes of in-sync sets (`proposals.py`).
Everything runs on the event loop.
"""
