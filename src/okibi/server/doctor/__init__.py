"""Why a prompt was not in the cache: what changed since the session's earlier requests."""
