"""A tour that runs by itself: `make demo`. See `__main__.py`."""
