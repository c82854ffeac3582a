"""What this broker asks the other brokers of its cluster, over Kafka's protocol.

Purpose: `connections` has the connections, `transactions` what coordinators and partitions of
different brokers tell each other, `quorum` how far another one knows the metadata. Answers are the
model's. Everything runs on the event loop. What is needed to speak Kafka's protocol is loaded with
the first call: a node of one does without.
"""
