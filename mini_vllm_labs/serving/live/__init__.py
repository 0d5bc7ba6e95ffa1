"""Serves the page at `/`: chats next to a live picture of the engine that answers them."""
