"""The group coordinator of this node."""
