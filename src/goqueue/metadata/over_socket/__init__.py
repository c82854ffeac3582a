"""One process has the metadata store open, others use it over a Unix socket.

`serve_store` answers the questions of one connection; `SocketStore` is the other end, a
`MetadataStore` like any other. Each end belongs to one event loop. A connection is not made anew:
it lasts for as long as both processes do.
"""

from goqueue.metadata.over_socket.serving import serve_store
from goqueue.metadata.over_socket.store import SocketStore

__all__ = ["SocketStore", "serve_store"]
