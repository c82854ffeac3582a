"""Confluent's schema registry API over HTTP, at the root and under `/schemas`.

Thin: decodes, asks `broker.schemas`, encodes. Holds no state; runs on the broker's event loop.
"""
