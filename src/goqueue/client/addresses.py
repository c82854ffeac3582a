"""Broker addresses as users write them."""

from goqueue.client.errors import BrokerUnreachable


def parse_addresses(bootstrap_servers: str) -> list[tuple[str, int]]:
    """`host:port,host:port`; the port may be left out, an IPv6 host stands in brackets."""
    addresses = []
    for text in filter(None, (part.strip() for part in bootstrap_servers.split(","))):
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, "9092"
        if not port.isdigit() or not 0 < int(port) <= 65535 or not host:
            raise BrokerUnreachable(f"{text!r} is not an address; write host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise BrokerUnreachable("no broker address given; write host:port")
    return addresses
