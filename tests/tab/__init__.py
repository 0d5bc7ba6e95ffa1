"""The embedded model and the live page's server inside of a browser's tab."""
