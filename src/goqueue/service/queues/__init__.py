"""Topics read as queues, over HTTP and SQS; FIFO, policies of queues, dead letters brought back."""
