"""Three brokers of GoQueue beside three nodes of Apache Kafka, one after the other."""
