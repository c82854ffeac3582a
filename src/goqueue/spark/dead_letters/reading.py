"""Dead letters as a frame: why, when and where messages died, and which were sent back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import LATEST, READ_COMMITTED
from goqueue.client.profiles import security_at
from goqueue.model.errors import UnknownTopic
from goqueue.model.header_names import DEAD_LETTER_PREFIX
from goqueue.model.queues.dead_letters import dead_letter_topic, marks_topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Headers that programs put the failure into, tried in this order.
EXCEPTION_HEADERS: Final = ("exception", "error", "goqueue-error", "x-exception-message")
GROUPS: Final = ("reason", "sourceTopic", "group", "bucket", "exception")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The dead letters of a topic, and the marks of those that were sent back."""

    bootstrap_servers: str
    topic: str

    @property
    def letters_topic(self) -> str:
        return dead_letter_topic(self.topic)

    @property
    def marks_topic(self) -> str:
        return marks_topic(self.letters_topic)

    def frame(
        self, spark: "SparkSession", *, exception_headers: Sequence[str] = EXCEPTION_HEADERS
    ) -> "DataFrame":
        """A row per dead letter: reason, sourceTopic, sourcePartition, sourceOffset, group,
        deliveries, diedAt, exception, redrivenBy, and the record itself.

        `redrivenBy` is null where it was not sent back, and else the id of the redrive, or
        `broker` for `goqueue dlq redrive`.
        """
        from pyspark.sql import functions

        letters = self._read(spark, self.letters_topic)
        found = letters.select(
            _header("reason").cast("string").alias("reason"),
            _header("topic").cast("string").alias("sourceTopic"),
            _header("partition").cast("string").cast("int").alias("sourcePartition"),
            _header("offset").cast("string").cast("long").alias("sourceOffset"),
            _header("group").cast("string").alias("group"),
            _header("delivery-count").cast("string").cast("int").alias("deliveries"),
            functions.timestamp_millis(_header("time").cast("string").cast("long")).alias("diedAt"),
            functions.coalesce(
                *(_named_header(name).cast("string") for name in exception_headers),
                functions.lit(None).cast("string"),
            ).alias("exception"),
            functions.concat_ws("/", "partition", "offset").alias("place"),
            *("key", "value", "headers", "partition", "offset"),
        )
        if self.marks_end() is None:
            found = found.withColumn("redrivenBy", functions.lit(None).cast("string"))
        else:
            found = found.join(functions.broadcast(self.marks(spark)), "place", "left")
        return found.drop("place")

    def letters_id(self) -> str:
        """Of the dead-letter topic: one that is made again begins anew."""
        with LogCluster(
            self.bootstrap_servers, security=security_at(self.bootstrap_servers)
        ) as cluster:
            return str(cluster.topics([self.letters_topic])[self.letters_topic].id)

    def marks_end(self) -> tuple[str, int] | None:
        """The marks' topic id and end, or None before the first redrive."""
        with LogCluster(
            self.bootstrap_servers, security=security_at(self.bootstrap_servers)
        ) as cluster:
            try:
                topic = cluster.topics([self.marks_topic])[self.marks_topic]
            except UnknownTopic:
                return None
            place = (self.marks_topic, 0)
            return str(topic.id), cluster.offsets({place: LATEST}, isolation=READ_COMMITTED)[place]

    def marks(self, spark: "SparkSession") -> "DataFrame":
        """place (partition/offset of the letter) and redrivenBy, of what was sent back."""
        from pyspark.sql import functions

        found = self._read(spark, self.marks_topic).select(
            functions.col("key").cast("string").alias("letter"),
            functions.col("value").cast("string").alias("redrivenBy"),
        )
        prefix = f"{self.letters_id()}/"
        marked = found.where(functions.col("letter").startswith(prefix)).select(
            functions.substr("letter", functions.lit(len(prefix) + 1)).alias("place"), "redrivenBy"
        )
        return marked.dropDuplicates(["place"])

    def _read(self, spark: "SparkSession", topic: str) -> "DataFrame":
        return (
            spark.read.format("goqueue")
            .option("bootstrap.servers", self.bootstrap_servers)
            .option("topic", topic)
            .option("columns", "key,value,headers,partition,offset")
            .load()
        )


def report(letters: "DataFrame", *, by: Sequence[str], bucket: str) -> "DataFrame":
    """How many there are of each kind: total, waiting (not sent back), first and last time."""
    from pyspark.sql import functions

    bucketed = letters.withColumn("bucket", functions.window("diedAt", bucket).getField("start"))
    return (
        bucketed.groupBy(*by)
        .agg(
            functions.count("*").alias("total"),
            functions.count_if(functions.col("redrivenBy").isNull()).alias("waiting"),
            functions.min("diedAt").alias("first"),
            functions.max("diedAt").alias("last"),
        )
        .orderBy(functions.desc("total"), *by)
    )


def _header(name: str) -> "Column":
    return _named_header(DEAD_LETTER_PREFIX + name)


def _named_header(name: str) -> "Column":
    """The last header of that name, or null."""
    from pyspark.sql import functions

    of_name = functions.filter("headers", lambda header: header["key"] == name)
    return functions.try_element_at(of_name, functions.lit(-1)).getField("value")
