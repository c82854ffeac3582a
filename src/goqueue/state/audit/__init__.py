"""The audit: what is the same within a minute is told once, with a count. Pure."""
