"""Talking to a broker over Kafka's protocol: the requests that administration needs.

Knows nothing of the broker's inside and works with any Kafka-compatible broker. A `KafkaAdmin`
owns its connections; it belongs to one event loop and sends one request at a time on each.
"""
