"""A tiny random Llama with a tokenizer and a chat template, as a Hugging Face folder."""

from pathlib import Path

from transformers import LlamaConfig, PreTrainedModel, PreTrainedTokenizerFast

from tests.support.tiny_models import make_transformers_model
from tests.support.tiny_text import CHAT_TEMPLATE, END_ID, VOCAB_SIZE, make_tokenizer

MAX_MODEL_LEN = 4096


def save_tiny_checkpoint(folder: Path) -> PreTrainedModel:
    """Save it; returns the model of transformers."""
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_MODEL_LEN,
        eos_token_id=END_ID,
        bos_token_id=0,
    )
    model = make_transformers_model(config, seed=1)
    model.save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer(), bos_token="<|endoftext|>", eos_token="<|im_end|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return model
