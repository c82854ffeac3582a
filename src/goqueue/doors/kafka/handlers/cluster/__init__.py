"""Brokers, coordinators and leaders, and where replicas are."""
