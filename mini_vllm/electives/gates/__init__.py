"""Optional conditions for admitting a request: grammars, adapters, images, and K and V loaded from elsewhere.

A learner's code for phases 1, 2 and 5 stays unchanged. The learner's code receives a waiting queue that skips requests
(`passing_queue.py`), and a chunk policy and a KV cache that consult the gates (`gated.py`).
"""
