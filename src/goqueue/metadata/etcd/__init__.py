"""etcd as the metadata store of a cluster: `EtcdStore`, and a client for what it uses of etcd.

Imported only where a cluster is configured; it needs grpcio (`goqueue[cluster]`).
"""
