"""The dense decoder: Llama, Mistral, Qwen2 and Qwen3."""
