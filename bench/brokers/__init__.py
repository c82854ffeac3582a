"""The brokers that are measured: how each is started, what it calls durable, who drives it.

Each broker object owns one child process and one folder; the harness ends what it starts.
"""
