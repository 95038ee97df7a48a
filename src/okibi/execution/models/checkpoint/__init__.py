"""Where weights come from: Hugging Face folders and GGUF files behind one protocol."""

from okibi.execution.models.checkpoint.checkpoint import Checkpoint, TensorInfo, open_checkpoint

__all__ = ["Checkpoint", "TensorInfo", "open_checkpoint"]
