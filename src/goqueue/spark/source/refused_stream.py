"""What Spark gets in place of a stream that cannot be read as it was asked for.

Spark's runner of streams closes its reader whatever happens, and fails over one that was never
made: the user would be told of that instead of the reason. So the first question raises it.
"""

from typing import Never

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from goqueue.model.errors import GoQueueError
from goqueue.spark.plain_errors import plain_errors


@plain_errors
class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, reason: GoQueueError) -> None:
        self._reason = reason

    def _refuse(self, *_given: object, **_named: object) -> Never:
        raise self._reason

    # Spark's names.
    initialOffset = _refuse  # noqa: N815
    getDefaultReadLimit = _refuse  # noqa: N815
    prepareForTriggerAvailableNow = _refuse  # noqa: N815
    latestOffset = _refuse  # noqa: N815
    partitions = _refuse
    read = _refuse
