"""What commands on a cluster ask first: whether it is one, and which partitions there are."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from goqueue.cli.failures import CommandFailed

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

_PAGE: Final = 5_000


def check_cluster(api: "HttpApi") -> dict[str, Any]:
    """Its state; `CommandFailed` for a node of one."""
    state: dict[str, Any] = api.get("cluster", "state")
    if not state["isCluster"]:
        raise CommandFailed(
            "this broker is a node of one: it leads everything, and no other could; a cluster is "
            "started with `goqueue serve --cluster etcd://…`, several workers with `--workers`"
        )
    return state


def partition_pages(
    api: "HttpApi", topic: str | None, problem: str | None = None
) -> Iterator[dict[str, Any]]:
    after = None
    while True:
        page = api.get(
            "cluster", "metadata", topic=topic, problem=problem, limit=_PAGE, after=after
        )
        yield from page["partitions"]
        after = page["nextAfter"]
        if after is None:
            return


def chosen_partitions(
    api: "HttpApi", topic: str, wanted: Sequence[int] | None
) -> list[dict[str, Any]]:
    """Those of a topic that are wanted, or all."""
    known = {each["partition"]: each for each in partition_pages(api, topic)}
    if not known:
        raise CommandFailed(f"there is no topic {topic!r}; see `goqueue topics list`")
    for number in wanted or ():
        if number not in known:
            raise CommandFailed(f"topic {topic!r} has {len(known)} partitions, no {number}")
    return [known[number] for number in wanted or sorted(known)]
