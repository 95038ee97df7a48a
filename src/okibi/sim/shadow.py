"""What every slot of every page holds, and who can see it.

Owns the checking executor's picture of the arena. A page is one part of a block of one group at a
time and has one slot a token; a slot holds a token id and the fake model's state after it:

    block of group 0, part 0   | (t, s) | (t, s) | never | never |      block_tokens = 4
                      part 1   | (t, s) | (t, s) | never | never |      pages_per_block = 2

It records and answers; `step_check` decides what is a violation.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from okibi.core.ids import GroupId, RequestId, StepId
from okibi.core.kv_layout import GroupLayout, KVCacheLayout
from okibi.core.plan import AdmittedRequest

NEVER_WRITTEN = -1


class BlockPart(NamedTuple):
    """What a page is: page `page_index` of a block of `group_id`."""

    group_id: GroupId
    page_index: int


class ShadowPage:
    """The slots of one page.

    Attributes:
        part: What it was last used as.
        token_ids: Token id a slot, or `NEVER_WRITTEN`.
        states: The fake model's state after that token.
        written_at: Step that wrote last, -1 for none.
    """

    __slots__ = ("part", "states", "token_ids", "written_at")

    def __init__(self) -> None:
        self.part = BlockPart(GroupId(-1), 0)
        self.token_ids = array("i")
        self.states = array("Q")
        self.written_at = StepId(-1)

    def begin(self, part: BlockPart, block_tokens: int) -> None:
        """Make this such a part; what it held as another is gone."""
        if self.part != part:
            self.part = part
            self.token_ids = array("i", (NEVER_WRITTEN,)) * block_tokens
            self.states = array("Q", (0,)) * block_tokens

    def copy_from(self, source: "ShadowPage", step_id: StepId) -> None:
        self.part = source.part
        self.token_ids = source.token_ids[:]
        self.states = source.states[:]
        self.written_at = step_id

    def holds(self, slot: int, token_id: int, state: int) -> bool:
        return self.token_ids[slot] == token_id and self.states[slot] == state


@dataclass(slots=True)
class KnownTokens:
    """The true tokens of one request, as far as they are known.

    Attributes:
        root: State before the first token.
        token_ids: From position 0; grows as tokens are computed and sampled.
        num_prompt_tokens: None if nobody told the prompt.
    """

    root: int
    token_ids: "array[int]"
    num_prompt_tokens: int | None = None


class ShadowRequest:
    """One request as the executor knows it.

    Attributes:
        admitted: The latest admission.
        tables: Block table a group.
        token_ids: Every token known to belong to the request, from position 0.
        states: States after the first of them, as far as they were computed or read.
    """

    __slots__ = ("_root", "admitted", "states", "tables", "token_ids")

    def __init__(self, admitted: AdmittedRequest, known: KnownTokens) -> None:
        self.admitted = admitted
        self.token_ids = known.token_ids
        self.states = array("Q")
        self.tables: dict[GroupId, array[int]] = {}
        self._root = known.root

    def block(self, group: GroupLayout, block: int) -> Iterator[tuple[BlockPart, int]]:
        """The pages of a block and which part of it each one is."""
        first = block * group.pages_per_block
        pages = self.tables[group.group_id][first : first + group.pages_per_block]
        for index, page_id in enumerate(pages):
            yield BlockPart(group.group_id, index), page_id

    def state_before(self, position: int) -> int:
        return self.states[position - 1] if position else self._root


class ShadowArena:
    """All pages, and in how many live block tables each one stands."""

    def __init__(self, layout: KVCacheLayout) -> None:
        self.groups = {group.group_id: group for group in layout.groups}
        self.requests: dict[RequestId, ShadowRequest] = {}
        self._pages = [ShadowPage() for _ in range(layout.num_pages)]
        self._num_tables = array("i", bytes(4 * layout.num_pages))

    def __contains__(self, page: int) -> bool:
        return 0 <= page < len(self._pages)

    def __getitem__(self, page: int) -> ShadowPage:
        return self._pages[page]

    def num_tables(self, page: int) -> int:
        return self._num_tables[page]

    def append_to_table(
        self, request: ShadowRequest, group_id: GroupId, pages: "array[int]"
    ) -> None:
        table = request.tables.setdefault(group_id, array("i"))
        table.extend(pages)
        for page in pages:
            self._num_tables[page] += 1

    def drop_tables(self, request: ShadowRequest) -> None:
        for table in request.tables.values():
            for page in table:
                self._num_tables[page] -= 1
        request.tables.clear()
