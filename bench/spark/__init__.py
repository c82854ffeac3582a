"""Reading topics with Spark, beside Parquet and beside Spark's own Kafka source."""
