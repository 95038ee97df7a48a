"""Generated ids to text, one token at a time, never half a character.

The text is the bytes of the tokens read as UTF-8. Bytes of an unfinished character are kept until
it is complete; U+FFFD appears only for bytes that can never become one, or at the end.
"""

import codecs

from okibi.server.prompt.token_bytes import TokenBytes


class Detokenizer:
    """The text of one growing sequence of tokens, special tokens left out."""

    def __init__(self, token_bytes: TokenBytes) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The characters that this token completes; often one word, sometimes nothing."""
        if self._token_bytes.is_special(token_id):
            return ""
        return self._decoder.decode(self._token_bytes.of(token_id))

    def finish(self) -> str:
        """What an unfinished character at the end becomes."""
        return self._decoder.decode(b"", final=True)
