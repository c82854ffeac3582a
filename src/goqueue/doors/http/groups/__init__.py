"""Consumer groups over HTTP."""
