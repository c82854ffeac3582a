"""Kafka share groups (KIP-932) on the queue engine."""
