"""The cluster and its brokers: nodes, settings, replicas, and what brokers ask each other."""
