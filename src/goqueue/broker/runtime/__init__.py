"""Runs state machines on partitions of internal topics, and hands out producer ids."""
