"""Words of tracing: spans, queries, trace context, settings."""
