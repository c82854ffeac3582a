"""Topics read as queues: leases, acknowledgements, dead letters."""
