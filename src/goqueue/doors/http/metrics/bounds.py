"""How many series there may be, whatever users name and create.

Prometheus holds every series in memory (some KB each), and a scrape formats some 100,000 lines a
second. The first ones by name are shown, so that the same ones are in every scrape; sums per broker
stay complete, and what is left out is counted in a `…_without_series` gauge.
"""

from typing import Final

# A dozen series each.
PARTITIONS_WITH_SERIES_MAX: Final = 10_000
# Some ten series each, and one for each topic.
GROUPS_WITH_SERIES_MAX: Final = 1_000
# Partitions with a committed offset, of all groups together; two series each.
GROUP_PARTITIONS_WITH_SERIES_MAX: Final = 10_000
# A topic as one group reads it as a queue: some thirty series each.
QUEUES_WITH_SERIES_MAX: Final = 1_000
# Topics with delayed messages or dead letters; a few series each.
TOPICS_WITH_SERIES_MAX: Final = 2_000
# Values that Kafka clients push of themselves, of all clients together.
CLIENT_SERIES_MAX: Final = 5_000
