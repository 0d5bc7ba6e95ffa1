"""The conformance suite: what it sends, what it finds, and what it reports about broken engines."""
