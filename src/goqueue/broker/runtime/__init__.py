"""Runs state machines on partitions of internal topics."""
