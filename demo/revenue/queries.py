"""Two queries over the same orders: one writes a topic, one a table, each row exactly once."""

from goqueue.spark.archive.delta_table import delta_writer

QUERY = """
SELECT window.start AS minute, sum(value.amount) AS revenue, count(*) AS orders
FROM orders
WHERE value.amount IS NOT NULL
GROUP BY window(timestamp, '1 minute')
"""


def revenue_per_minute(spark, context):
    minutes = spark.sql(QUERY)
    servers = context.definition.bootstrap_servers
    records = minutes.selectExpr(
        "date_format(minute, 'HH:mm') AS key",
        "to_json(struct(minute, round(revenue, 2) AS revenue, orders)) AS value",
    )
    to_topic = (
        records.writeStream.format("goqueue")
        .option("bootstrap.servers", servers)
        .option("topic", "revenue")
    )
    to_table = delta_writer(minutes, str(context.definition.folder / "revenue-table"))
    return [
        writer.queryName(f"revenue-to-{name}")
        .option("checkpointLocation", f"{context.checkpoint}/{name}")
        .trigger(availableNow=True)
        .start()
        for name, writer in (("topic", to_topic), ("table", to_table))
    ]
