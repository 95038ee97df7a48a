"""Models, one folder a family, and the way from a file or folder to a model with its weights."""
