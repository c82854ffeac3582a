"""The key hash agrees with Kafka's own clients."""

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        # The values of Kafka's own UtilsTest.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_as_kafkas_java_client(key: bytes, java_hash: int) -> None:
    assert murmur2(key) == java_hash % 2**32


@given(key=st.binary(max_size=100), partition_count=st.integers(1, 1000))
def test_chooses_the_partition_that_another_client_chooses(
    key: bytes, partition_count: int
) -> None:
    theirs = (aiokafka_murmur2(key) & 0x7FFFFFFF) % partition_count
    assert partition_for_key(key, partition_count) == theirs
