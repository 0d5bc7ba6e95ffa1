"""The conformance suite: what it sends, what it finds, and what it says about engines that break."""
