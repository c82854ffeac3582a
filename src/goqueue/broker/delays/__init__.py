"""Delayed messages: taken in, kept, delivered when due."""
