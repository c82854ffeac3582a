"""A cluster in memory: brokers, disks, a network and a metadata store that all fail by a seed."""
