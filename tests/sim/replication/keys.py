"""The keys of the simulated metadata, which are asked for all the time: made once."""

CONTROLLER = "/controller"

_BROKER_KEYS = tuple(f"/brokers/{node}" for node in range(5))
_NODE_KEYS = tuple(f"/nodes/{node}" for node in range(5))
_PARTITION_KEYS = tuple(f"/partitions/{index}" for index in range(5))
broker_key = _BROKER_KEYS.__getitem__
node_key = _NODE_KEYS.__getitem__
partition_key = _PARTITION_KEYS.__getitem__
# None for other keys.
partition_index = {key: index for index, key in enumerate(_PARTITION_KEYS)}.get
