"""The real model: loading, the paged KV cache and the runner around phase 6. Imports torch."""
