"""What tests do to a real etcd besides starting it."""

import grpc.aio

from goqueue.testing.etcd_process import EtcdProcess as EtcdServer
from goqueue.testing.ports import free_port

__all__ = ["EtcdServer", "compact", "free_port"]


async def compact(endpoint: str, revision: int) -> None:
    """Make etcd forget what was before `revision`, as its own upkeep does."""
    # Field 1 of etcd's CompactionRequest is the revision, a varint.
    request, rest = b"\x08", revision
    while rest > 0x7F:
        request += bytes((rest & 0x7F | 0x80,))
        rest >>= 7
    async with grpc.aio.insecure_channel(endpoint) as channel:
        call = channel.unary_unary("/etcdserverpb.KV/Compact", bytes, bytes)
        await call(request + bytes((rest,)))
