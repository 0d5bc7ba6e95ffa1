"""Groups a model's layers by block table: layers with full attention, and layers with a sliding window."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KVCacheGroups:
    """The window of each layer; None means full attention. (vLLM: `KVCacheConfig.kv_cache_groups`.)

    All windows have the same length. Layers in different groups share a tensor of the KV cache, because they never hold
    the same block. The number of tensors is therefore the number of layers in the larger group.
    """

    window_of_layer: tuple[int | None, ...]

    @property
    def windows(self) -> tuple[int | None, ...]:
        """Each layer group's window; full attention comes first."""
        return tuple(sorted(set(self.window_of_layer), key=lambda window: window or 0))

    @property
    def has_windows(self) -> bool:
        return self.windows != (None,)

    @property
    def group_of_layer(self) -> list[int]:
        return [self.windows.index(window) for window in self.window_of_layer]

    @property
    def tensor_of_layer(self) -> list[int]:
        """Each layer's number within its group."""
        windows = self.window_of_layer
        return [windows[:layer].count(window) for layer, window in enumerate(windows)]

    @property
    def num_tensors(self) -> int:
        return max(self.tensor_of_layer) + 1
