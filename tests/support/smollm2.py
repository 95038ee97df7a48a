"""The default model as transformers has it, on the same GGUF file's weights, and prompts for it.

Weights are dequantised and put in place here without okibi's loader. The tokenizer is the one
transformers makes of the file.
"""

from pathlib import Path
from typing import Any

import gguf
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from tests.support.gguf_files import deinterleave

ROOT = Path(__file__).resolve().parents[2]
MAX_PROMPT_TOKENS = 2000

QUESTIONS = (
    "What is the capital of France?",
    "List the planets of the solar system in order.",
    "Write a haiku about embers in the morning.",
    "Explain what a hash table is to a child.",
    "Translate 'good morning' into Spanish, French and German.",
    "What is 17 times 23? Answer with the number only.",
    "Write a Python function that reverses a linked list.",
    "Give three tips for sleeping better.",
    "Who wrote 'Pride and Prejudice', and when?",
    "Summarise the water cycle in two sentences.",
    "Name five animals that live in the desert.",
    "Why is the sky blue?",
    "Turn this into JSON: name Ada, born 1815, field mathematics.",
    "What does the command `ls -la | wc -l` print?",
    "Describe how bread is baked.",
    "Is 91 a prime number? Explain.",
)
CONTINUATIONS = (
    "The",
    "def fibonacci(n):\n",
    "1, 1, 2, 3, 5, 8, 13,",
    "Once upon a time, in a small village by the sea,",
    "import os\nimport sys\n\n\ndef main():\n",
    "Ingredients: flour, water, salt.\nSteps:\n1.",
    "| city | country |\n|---|---|\n| Paris | France |\n| Rome |",
    "SELECT name, COUNT(*) FROM orders",
)
DOCUMENT_TOKENS = (120, 250, 400, 600, 800, 1000, 1300, 1600, 1800, 1950)


def load_smollm2(path: Path) -> PreTrainedModel:
    """The float32 model of transformers with the file's dequantised weights."""
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            gguf_name = names.get_name(name, try_suffixes=(".weight",))
            assert gguf_name is not None
            tensor = tensors.pop(gguf_name)
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            if ".q_proj." in name or ".k_proj." in name:
                values = deinterleave(values, weight.shape[0] // 64)
            weight.copy_(torch.from_numpy(values.copy()))
    assert not tensors
    return model


def make_prompts(path: Path) -> list[list[int]]:
    """40 prompts of 1 to 2,000 tokens: questions, second turns, continuations, a document.

    The documents start alike, and so do first and second turns: prefixes are shared.
    """
    tokenizer: Any = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)

    def chat(*turns: str) -> list[int]:
        roles = ("user", "assistant")
        messages = [{"role": roles[index % 2], "content": turn} for index, turn in enumerate(turns)]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return tokenizer.encode(text)

    document = tokenizer.encode((ROOT / "LICENSE").read_text())
    prompts = [chat(question) for question in QUESTIONS]
    prompts += [
        chat(question, "I am not sure. Let me think.", "Please try again, in one sentence.")
        for question in QUESTIONS[:6]
    ]
    prompts += [tokenizer.encode(text) for text in CONTINUATIONS]
    for num_tokens in DOCUMENT_TOKENS:
        excerpt = tokenizer.decode(document[:num_tokens])
        prompts.append(chat(f"{excerpt}\n\nWhat is this document about?")[:MAX_PROMPT_TOKENS])
    return prompts
