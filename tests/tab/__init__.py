"""The embedded model and the live page's server inside a browser tab."""
