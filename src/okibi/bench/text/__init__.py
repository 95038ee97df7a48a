"""Text with a known number of tokens, for prompts that only exist as block ids.

Trick: a text of words that are one token each, joined by single spaces, has exactly as many tokens
as words under any tokenizer that splits at spaces. `vocabulary` finds such words with whatever
tokenizer is at hand; `synthesis` turns block ids into them.
"""
