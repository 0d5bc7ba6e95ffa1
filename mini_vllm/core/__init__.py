"""The scheduler's world: requests, blocks, queues, one step. No torch."""
