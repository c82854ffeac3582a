"""Short texts by hand, for targets that need little to begin with."""

from typing import Final

from goqueue.model.groups.consumer_protocol import write_assignment, write_subscription
from goqueue.model.header_names import DELAY_MS, DELIVER_AT, PREFIX, PRIORITY, TTL_MS

HEADERS: Final = tuple(
    line.encode()
    for line in (
        f"{DELAY_MS}=5000",
        f"{DELIVER_AT}=1700000000000\n{PRIORITY}=high",
        f"{PRIORITY}=4\n{TTL_MS}= 7 ",
        f"{PRIORITY}=urgent",
        f"{TTL_MS}=9999999999999999999",
        f"{PREFIX}\nx={PREFIX}",
        "x" * 4_090 + PREFIX,
        PREFIX * 300,
    )
)
REGEXES: Final = (
    b"orders-.*",
    b"orders|payments\norders\npayments",
    rb"\w+\.v[0-9]{1,3}" + b"\npayments.v1",
    b"(a?){50}a{50}\n" + b"a" * 60,
    b"[[:alpha:]]+(?i)X$",
    b"(?P<name>x",
    b"(((((((((((a{100}){100})))))))))))",
)
SETTINGS: Final = (
    b"retention.ms=7d\nsegment.bytes=64MiB",
    b"retention.ms=1h30m\nretention.bytes=-1\ncleanup.policy=compact,delete",
    b"compression.type=zstd\nmax.message.bytes=1MB\nmin.compaction.lag.ms=250ms",
    b"flush.ms=1.5s\nqueue.max.deliveries=3\nfsync.policy=always",
    b"kafka.port=9092\nhttp.allowed.hosts=a,b\nlog.level=debug",
    b"tracing.sampling.rate=0.5\nmessage.timestamp.type=LogAppendTime",
)
MEMBERS: Final = (
    write_subscription(0, ["orders"]),
    write_subscription(1, ["a", "b"], {"a": [0, 1]}),
    write_subscription(3, ["orders"], {"orders": [2]}, generation=7, rack_id="r1"),
    write_assignment(1, {"orders": [0, 1, 2], "payments": []}),
    b"",
)
