"""Shows a model's limits on a GPU: memory as a bar, speed as a roofline."""

from mini_vllm_labs.pictures.calculator.capacity import Capacity, Setup, capacity_of
from mini_vllm_labs.pictures.calculator.panel import calculator, calculator_picture

__all__ = ["Capacity", "Setup", "calculator", "calculator_picture", "capacity_of"]
