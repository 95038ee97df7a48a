"""Text to tokens and back, from the model's own files.

`assets` reads tokenizer, chat template and special tokens; `chat_template` renders; `text_encoder`
tokenises without doing the history again; `detokenizer` and `output_text` turn generated ids into
text that can be streamed. Knows no HTTP and no engine.
"""
