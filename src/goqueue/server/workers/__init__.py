"""Several brokers on one machine, started as one: `goqueue serve --workers N`.

The command itself is the supervisor. It has the metadata store open, keeps the folder and the
ports, and starts the workers, each of which is a broker of a cluster with a data directory, an
event loop and a share of the partitions of its own (`python -m goqueue.server.workers`). A worker
reaches the store over the one socket that it is given when it is started, so that it cannot outlive
the supervisor for long.
"""
