"""Talking to a broker over Kafka's protocol, and over HTTP for what that has no words for.

Knows nothing of the broker's inside. A `KafkaAdmin` owns its connections; it belongs to one event
loop and sends one request at a time on each. What blocks (`LogCluster`, `LogReader`, `LogWriter`,
`TransactionGroup`) is for code without a loop, such as Spark's workers: each object belongs to one
thread and owns its connections.
"""
