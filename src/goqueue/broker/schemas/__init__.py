"""The schema registry of this node, and validation of what is published."""
