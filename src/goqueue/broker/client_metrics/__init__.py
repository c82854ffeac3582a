"""Client metrics of this node: subscriptions from the metadata, pushes from its own clients."""
