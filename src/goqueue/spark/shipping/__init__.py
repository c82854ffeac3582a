"""GoQueue on workers that do not have it: an archive with a Python of its own."""
