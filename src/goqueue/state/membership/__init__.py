"""Who a broker is, over restarts, and what its word is worth after one. Pure."""
