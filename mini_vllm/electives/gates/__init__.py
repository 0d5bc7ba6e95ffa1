"""What a step asks before it admits a request: grammars, adapters, images, K and V from elsewhere. All of it optional.

What a learner wrote for phases 1, 2 and 5 knows none of this and stays unchanged: it is handed a waiting queue that
passes requests over (`passing_queue.py`), and a chunk policy and a KV cache that ask the gates (`gated.py`).
"""
