"""Shapes of a few decoder-only models, from their published configs, and their parameter counts."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The dimensions of a Llama-like model that determine its serving cost.

    `head_dim` is the size of each head; `num_heads` query heads share the K and V of `num_kv_heads` heads.
    `has_qkv_bias` and `has_qk_norm` mark small differences in Qwen2 and Qwen3 that affect only the number of
    parameters.
    """

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_model_len: int
    tied_embeddings: bool = False
    has_qkv_bias: bool = False
    has_qk_norm: bool = False

    @property
    def num_matrix_parameters(self) -> int:
        """Parameters of all layers' matrices, each used once per computed token."""
        query = output = self.hidden_size * self.num_heads * self.head_dim
        key = value = self.hidden_size * self.num_kv_heads * self.head_dim
        mlp = 3 * self.hidden_size * self.intermediate_size
        return self.num_layers * (query + key + value + output + mlp)

    @property
    def num_embedding_parameters(self) -> int:
        """Parameters of one vocabulary matrix: the embedding, or the output head."""
        return self.vocab_size * self.hidden_size

    @property
    def num_parameters(self) -> int:
        """All parameters, including norms and biases."""
        vectors = 2 * self.hidden_size
        if self.has_qkv_bias:
            vectors += (self.num_heads + 2 * self.num_kv_heads) * self.head_dim
        if self.has_qk_norm:
            vectors += 2 * self.head_dim
        num_vocabularies = 1 if self.tied_embeddings else 2
        return (
            self.num_matrix_parameters
            + self.num_layers * vectors
            + self.hidden_size
            + num_vocabularies * self.num_embedding_parameters
        )

    @property
    def num_parameters_read(self) -> int:
        """Parameters that a step reads. A step reads only a few rows of an untied input embedding."""
        return self.num_parameters - (0 if self.tied_embeddings else self.num_embedding_parameters)


MODEL_SHAPES = (
    ModelShape("embedded", 4, 256, 8, 2, 32, 512, 1_537, 2_048, tied_embeddings=True),
    ModelShape("Qwen2.5-0.5B", 24, 896, 14, 2, 64, 4_864, 151_936, 32_768, tied_embeddings=True, has_qkv_bias=True),
    ModelShape("Qwen2.5-7B", 28, 3_584, 28, 4, 128, 18_944, 152_064, 32_768, has_qkv_bias=True),
    ModelShape("Mistral-7B-v0.3", 32, 4_096, 32, 8, 128, 14_336, 32_768, 32_768),
    ModelShape("Llama-3.1-8B", 32, 4_096, 32, 8, 128, 14_336, 128_256, 131_072),
    ModelShape("Qwen3-8B", 36, 4_096, 32, 8, 128, 12_288, 151_936, 40_960, has_qk_norm=True),
    ModelShape("Qwen3-32B", 64, 5_120, 64, 8, 128, 25_600, 151_936, 40_960, has_qk_norm=True),
    ModelShape("Llama-3.1-70B", 80, 8_192, 64, 8, 128, 28_672, 128_256, 131_072),
)


def find_model_shape(name: str) -> ModelShape:
    """Return the model called `name`, in upper or lower case. Raises a `ValueError` that lists the names."""
    for shape in MODEL_SHAPES:
        if shape.name.lower() == name.lower():
            return shape
    raise ValueError(f"model must be one of {', '.join(shape.name for shape in MODEL_SHAPES)}, got {name!r}")


def shape_of_config(name: str, config: Any) -> ModelShape:
    """Return the shape of a transformers config. Raises a `ValueError` that names a missing attribute."""
    try:
        return ModelShape(
            name,
            num_layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            # Older configs lack `head_dim`, and some set it to None.
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            intermediate_size=config.intermediate_size,
            vocab_size=config.vocab_size,
            max_model_len=config.max_position_embeddings,
            tied_embeddings=bool(config.tie_word_embeddings),
        )
    except AttributeError as error:
        raise ValueError(f"the config of {name} is not Llama-like: {error}") from error
