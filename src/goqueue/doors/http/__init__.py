"""The HTTP front door: JSON in and out, health, metrics and the API document.

Owns its listening socket, its connections and their limits; all else is asked of the service.
Runs on the broker's event loop. Handlers decode, call the service and encode; the hottest route
(publishing) is answered before the web framework, by the same function as behind it.
"""

from goqueue.doors.http.door import HttpDoor

__all__ = ["HttpDoor"]
