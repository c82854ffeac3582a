import pytest

from goqueue.model.cluster_config import ClusterAddress, parse_cluster
from goqueue.model.errors import InvalidConfig


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("etcd://a:1", ClusterAddress(("a:1",))),
        ("etcd://a:1, b:2", ClusterAddress(("a:1", "b:2"))),
        ("etcd://a", ClusterAddress(("a:2379",))),
        ("etcd://[::1]", ClusterAddress(("[::1]:2379",))),
        ("etcd://[::1]:9", ClusterAddress(("[::1]:9",))),
        ("etcd://a:1/", ClusterAddress(("a:1",))),
        ("etcd://a:1/east/one/", ClusterAddress(("a:1",), "/east/one")),
    ],
)
def test_addresses(text: str, address: ClusterAddress) -> None:
    assert parse_cluster(text) == address


@pytest.mark.parametrize(
    "text", ["a:1", "http://a:1", "etcd://", "etcd://a:x", "etcd://a:0", "etcd://a:1,", "etcd://:1"]
)
def test_bad_addresses_are_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^cluster: "):
        parse_cluster(text)
