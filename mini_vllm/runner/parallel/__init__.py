"""Tensor parallelism: one model cut into equal shares, each computed by a process (a rank) of its own.

Rank 0 is the engine's process: scheduler, block tables and sampling are only there. The others are workers that
get the tensors of each step and compute the same forward pass on their share of the heads. Read `shares.py`
for the arithmetic, `worker.py` for a worker's life, `model.py` for rank 0's side.
"""
