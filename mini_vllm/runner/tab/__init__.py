"""Runs the embedded model in a browser tab without torch, with a forward pass in JavaScript."""
