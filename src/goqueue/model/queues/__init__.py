"""Words of queues: lanes, settings, receipts, deliveries, acknowledgements."""
