"""Classic, consumer and streams groups, and the offsets that groups commit."""
