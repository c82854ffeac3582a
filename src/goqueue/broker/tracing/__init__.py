"""Follows messages: spans from every part of the broker, their files and exporters."""
