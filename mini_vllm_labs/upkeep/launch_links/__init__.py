"""Links that open the notebooks of a published copy of the course in Binder and in Colab."""
