"""Words of client metrics (KIP-714): subscriptions, and what clients push for them."""
