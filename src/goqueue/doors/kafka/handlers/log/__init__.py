"""The log by offset: produced to, fetched, looked up, cut at its start."""
