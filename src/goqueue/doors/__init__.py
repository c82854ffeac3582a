"""Front doors: thin adapters from a wire protocol onto the services.

A door decodes, calls one service, encodes. It owns its connections and nothing that must survive
them; doors never import each other. Everything runs on the broker's event loop.
"""
