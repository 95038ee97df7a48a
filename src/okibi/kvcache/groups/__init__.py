"""One file a liveness rule, and the table that says which kind of state follows which."""

from okibi.core.errors import ConfigError
from okibi.core.kv_layout import GroupLayout
from okibi.core.kv_spec import FullAttentionSpec
from okibi.kvcache.groups.full_attention import FullAttentionGroup
from okibi.kvcache.groups.group import AnyGroup, GroupFactory
from okibi.kvcache.page_pool import PagePool
from okibi.kvcache.retention import EvictionPolicy

GROUPS: dict[type, GroupFactory] = {FullAttentionSpec: FullAttentionGroup}


def make_group(
    layout: GroupLayout, pool: PagePool, *, match_unit: int, policy: EvictionPolicy
) -> AnyGroup:
    """The group that keeps the state of these layers.

    Raises:
        ConfigError: nothing here knows how to keep it.
    """
    kind = type(layout.slices[0].spec)
    factory = GROUPS.get(kind)
    if factory is None:
        raise ConfigError(f"no KV-cache group keeps the state that {kind.__name__} describes")
    return factory(layout, pool, match_unit=match_unit, policy=policy)
