"""The routes, a router for each part of the API."""
