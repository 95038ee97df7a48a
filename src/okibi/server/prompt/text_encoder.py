"""Text to token ids, the same as the tokenizer's, without repeating what was done before.

Added tokens (`<|im_start|>` and the like) cut a text before the model's own tokenizer sees it, so
the pieces between them can be tokenised one by one and remembered. A piece is tokenised behind
the added token that precedes it, because some normalisers treat the start of a text differently.
Long pieces are cut further at the ends of words, where the pre-tokenizer always cuts. Where an
added token reaches into its neighbours the whole text is tokenised at once.
"""

import json
import re
from array import array
from collections.abc import Iterator

from tokenizers import Tokenizer

from okibi.core.token_source import TOKEN_BYTES
from okibi.server.prompt.messages import InvalidPrompt
from okibi.server.prompt.piece_memo import PieceMemo
from okibi.server.prompt.pretokenizers import cuts_between_words

LONG_PIECE_CHARS = 16_384
MAX_UNCUT_CHARS = 2_000_000
_WINDOW_CHARS = 1 << 16
_WORD_END = re.compile(
    r"(?<=[!-~])(?= )|(?<=[A-Za-z0-9])(?=[\n!-/:-@\[-`{-~])|(?<=[A-Za-z])(?=[0-9])"
)


class TooManyTokens(Exception):
    """The text has more than the tokens allowed; `num_tokens` were counted before giving up."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(f"more than {num_tokens} tokens")
        self.num_tokens = num_tokens


class TextEncoder:
    """Encodes with one tokenizer. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer, memo: PieceMemo) -> None:
        """`tokenizer` must neither truncate nor pad."""
        self._tokenizer = tokenizer
        self._memo = memo
        self._added = _splitting_pattern(tokenizer)
        added = tokenizer.get_added_tokens_decoder().values()
        self._longest_added = max((len(token.content) for token in added), default=0)
        self._may_cut_words = cuts_between_words(tokenizer)
        self._head, self._tail = _surrounding_ids(tokenizer)

    def encode(self, text: str, *, add_special_tokens: bool, max_tokens: int) -> bytes:
        """Packed int32 ids of `text`.

        Args:
            add_special_tokens: Whether to add what the model's post-processor puts around a
                text (a beginning-of-sequence token, usually).
            max_tokens: Where to give up; a guard against work for nothing, not a truncation.

        Raises:
            TooManyTokens: the text has more than `max_tokens`.
            InvalidPrompt: it has an endless stretch without a word's end.
        """
        parts = [self._head] if add_special_tokens else []
        num_bytes = sum(map(len, parts))
        for ids in self._encode_pieces(text):
            parts.append(ids)
            num_bytes += len(ids)
            if num_bytes > max_tokens * TOKEN_BYTES:
                raise TooManyTokens(num_bytes // TOKEN_BYTES)
        if add_special_tokens:
            parts.append(self._tail)
        return b"".join(parts)

    def _encode_pieces(self, text: str) -> Iterator[bytes]:
        if self._added is None:
            yield self._encode_whole(text)
            return
        before, start = "", 0
        reach = self._longest_added
        while match := _search(self._added, text, start, len(text), reach=reach):
            yield from self._encode_between(before, text[start : match.start()])
            before, start = match.group(), match.end()
        yield from self._encode_between(before, text[start:])

    def _encode_between(self, before: str, piece: str) -> Iterator[bytes]:
        """The ids of the added token `before` (if any) and of the text that follows it."""
        if len(piece) <= LONG_PIECE_CHARS or not self._may_cut_words:
            yield self._recall(before, piece)
            return
        for part in cut_at_word_ends(piece, LONG_PIECE_CHARS):
            yield self._recall(before, part)
            before = ""

    def _recall(self, before: str, piece: str) -> bytes:
        key = (before, piece)
        ids = self._memo.get(key)
        if ids is None:
            ids = self._encode_whole(before + piece)
            self._memo.put(key, ids)
        return ids

    def _encode_whole(self, text: str) -> bytes:
        if len(text) > MAX_UNCUT_CHARS:
            raise InvalidPrompt(
                f"a stretch of {len(text):,} characters has no place where it may be cut; at most "
                f"{MAX_UNCUT_CHARS:,} are tokenised at once",
                None,
            )
        # The batch call lets other threads run meanwhile; the single one does not.
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return array("i", encoding.ids).tobytes()


def cut_at_word_ends(text: str, min_chars: int) -> Iterator[str]:
    """Parts of at least `min_chars` (but for the last) that `cuts_between_words` allows."""
    start = 0
    while True:
        stop = min(len(text), start + MAX_UNCUT_CHARS)
        cut = _search(_WORD_END, text, start + min_chars, stop, reach=1)
        if cut is None:
            yield text[start:]
            return
        yield text[start : cut.start()]
        start = cut.start()


def _search(
    pattern: re.Pattern[str], text: str, start: int, stop: int, *, reach: int
) -> re.Match[str] | None:
    """`pattern.search` for matches of up to `reach` characters that begin in `[start, stop)`.

    One search over a large text would keep every other thread waiting; this goes by windows.
    """
    while start < stop:
        end = min(start + _WINDOW_CHARS, stop)
        match = pattern.search(text, start, end + reach)
        if match is not None and match.start() < end:
            return match
        start = end
    return None


def _splitting_pattern(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """Matches the added tokens that cut the raw text; None if one reaches into its neighbours.

    Those matched after normalisation are left inside the pieces, for the tokenizer to find.
    """
    contents = []
    for token in tokenizer.get_added_tokens_decoder().values():
        if token.normalized:
            continue
        if token.lstrip or token.rstrip or token.single_word:
            return None
        contents.append(token.content)
    if not contents:
        return re.compile(r"(?!)")
    contents.sort(key=len, reverse=True)
    return re.compile("|".join(map(re.escape, contents)))


def _surrounding_ids(tokenizer: Tokenizer) -> tuple[bytes, bytes]:
    """What the post-processor puts before and after a text."""
    inner = tokenizer.encode("a", add_special_tokens=False).ids
    outer = tokenizer.encode("a", add_special_tokens=True).ids
    for start in range(len(outer) - len(inner) + 1):
        if outer[start : start + len(inner)] == inner:
            head, tail = outer[:start], outer[start + len(inner) :]
            return array("i", head).tobytes(), array("i", tail).tobytes()
    raise ValueError(f"the post-processor rewrites tokens: {json.dumps(outer)}")
