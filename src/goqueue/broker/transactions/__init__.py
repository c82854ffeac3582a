"""The transaction coordinator and producer ids of this node."""
