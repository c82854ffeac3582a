"""Consumer, share and streams groups, and members that live in the broker for HTTP clients."""
