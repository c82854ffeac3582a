"""Sends dead letters back, each once.

A message and the mark that it was sent back are written by one transaction. Its id has the end of
the marks that the choice was made by, and every redrive moves that end. So of two redrives at the
same time one does nothing, and one that is run again after a crash sends what has no mark.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.client.admin import KafkaAdmin
from goqueue.client.log_cluster import LogCluster
from goqueue.client.profiles import security_at
from goqueue.model.header_names import DEAD_LETTER_PREFIX, DELAY_MS, DELIVER_AT
from goqueue.model.queues.dead_letters import MARKS_PARTITIONS, MARKS_SETTINGS
from goqueue.spark.dead_letters.reading import DeadLetters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# They waited already, and transactions take no delays.
_DELAY_HEADERS: Final = (DELAY_MS, DELIVER_AT)


def redrive(spark: "SparkSession", letters: DeadLetters, where: str | None = None) -> int:
    """Send back the dead letters that `where`, a condition in SQL, chooses; return how many."""
    topic_id, marks_before = letters.marks_end() or _make_marks(letters)
    redrive_id = f"redrive.{topic_id}.{marks_before}"
    chosen = waiting(letters.frame(spark), letters, where)
    # One read for both, or a message that arrives in between would be sent without its mark.
    records = chosen.select(_explode(_message(), _mark(letters, redrive_id)))
    began = spark.range(1).select(_began(letters, redrive_id))
    (
        # One task is one transaction: all marks are seen at once, by whoever chooses next.
        records.select("record.*")
        .unionByName(began.select("record.*"))
        .coalesce(1)
        .write.format("goqueue")
        .option("bootstrap.servers", letters.bootstrap_servers)
        .option("transaction.id", redrive_id)
        .mode("append")
        .save()
    )
    return letters.marks(spark).where(f"redrivenBy = '{redrive_id}'").count()


def waiting(frame: "DataFrame", letters: DeadLetters, where: str | None) -> "DataFrame":
    """The chosen letters that were not sent back, and have a topic to go to."""
    from pyspark.sql import functions

    with LogCluster(
        letters.bootstrap_servers, security=security_at(letters.bootstrap_servers)
    ) as cluster:
        topics = sorted(cluster.topics())
    chosen = frame if where is None else frame.where(where)
    return chosen.where(
        functions.col("redrivenBy").isNull() & functions.col("sourceTopic").isin(topics)
    )


def _make_marks(letters: DeadLetters) -> tuple[str, int]:
    async def make() -> None:
        async with KafkaAdmin(
            letters.bootstrap_servers, security_at(letters.bootstrap_servers)
        ) as admin:
            await admin.create_topic(
                letters.marks_topic, partitions=MARKS_PARTITIONS, settings=dict(MARKS_SETTINGS)
            )

    asyncio.run(make())
    made = letters.marks_end()
    assert made is not None, "it was made just now"
    return made


def _explode(*records: "Column") -> "Column":
    from pyspark.sql import functions

    return functions.explode(functions.array(*records)).alias("record")


def _message() -> "Column":
    from pyspark.sql import functions

    return functions.struct(
        functions.col("sourceTopic").alias("topic"),
        "key",
        "value",
        _kept_headers().alias("headers"),
    )


def _mark(letters: DeadLetters, redrive_id: str) -> "Column":
    from pyspark.sql import functions

    place = functions.concat_ws("/", functions.lit(letters.letters_id()), "partition", "offset")
    return _marking(letters, place, redrive_id)


def _began(letters: DeadLetters, redrive_id: str) -> "Column":
    """Moves the end of the marks also where nothing is chosen."""
    from pyspark.sql import functions

    return _marking(letters, functions.lit("redrive"), redrive_id).alias("record")


def _marking(letters: DeadLetters, key: "Column", redrive_id: str) -> "Column":
    from pyspark.sql import functions

    none = functions.expr("CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>)")
    return functions.struct(
        functions.lit(letters.marks_topic).alias("topic"),
        key.cast("binary").alias("key"),
        functions.lit(redrive_id).cast("binary").alias("value"),
        none.alias("headers"),
    )


def _kept_headers() -> "Column":
    """As they were before the message died."""
    from pyspark.sql import functions

    return functions.filter(
        "headers",
        lambda header: (
            ~header["key"].startswith(DEAD_LETTER_PREFIX)
            & ~header["key"].isin(list(_DELAY_HEADERS))
        ),
    )
