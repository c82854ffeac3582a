"""TLS between a socket and a door's connection.

Purpose: a `TlsConnection` is the protocol of a socket, and the transport of the connection behind
it. asyncio's own hides what it has given to the socket, so that a client which reads nothing would
hold answers that nobody counts; and it encrypts an answer of any size in one go. State is each
connection's own; everything runs on the event loop.
"""
