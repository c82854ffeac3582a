"""Follows messages: spans from every part of the broker, their files and exporters.

Purpose: features tell what happened to a message, and clients ask for it; tracing knows partitions
and records, but no feature. State: `TraceRecorder` has spans and contexts in memory, `SpanFiles`
spans on disk. Concurrency: spans are made on the event loop; each exporter writes in a thread of
its own, and queries look through files in a thread.
"""
