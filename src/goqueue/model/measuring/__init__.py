"""What the broker and its doors count and time, and figures of it at one moment."""
