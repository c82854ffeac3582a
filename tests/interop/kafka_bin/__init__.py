"""Apache Kafka's own commands, run against GoQueue and against Apache Kafka."""
