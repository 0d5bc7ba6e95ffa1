"""The real model: loading, the paged KV cache, and the runner that calls phase 6. Imports torch."""
