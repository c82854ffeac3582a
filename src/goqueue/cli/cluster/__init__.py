"""Commands of a cluster: its nodes, leaders and settings, and replicas that move."""
