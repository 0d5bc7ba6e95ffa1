"""Links that open the notebooks from a published copy of the course in Binder and in Colab."""
