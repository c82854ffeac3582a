"""Topics and settings in the metadata, and the follower that keeps our view of them."""
