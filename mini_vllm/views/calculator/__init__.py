"""What a model and a GPU allow: memory as a bar, speed as a roofline."""

from mini_vllm.views.calculator.capacity import Capacity, Setup, capacity_of
from mini_vllm.views.calculator.drawing import calculator, calculator_picture

__all__ = ["Capacity", "Setup", "calculator", "calculator_picture", "capacity_of"]
