"""Partitions on this node: appending, committing, reading, retention and compaction."""
