"""The environment variables okibi reads, each as a function.

The only module that may read `os.environ`. A variable is read when its function is called, and
callers pass the value on; nothing here caches. There are few on purpose: a setting belongs in a
configuration and on the command line, and only what a shell or a secret store owns belongs here.
"""

import os
from pathlib import Path

_GOMP_SPINCOUNT = 2000


def cache_dir() -> Path:
    """Where fetched models live: `OKIBI_CACHE_DIR`, else `$XDG_CACHE_HOME/okibi`, else
    `~/.cache/okibi`. The folder may not exist yet."""
    if own := os.environ.get("OKIBI_CACHE_DIR"):
        return Path(own).expanduser()
    # The XDG base directory specification tells programs to ignore a relative path.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    parent = Path(xdg) if xdg.startswith("/") else Path.home() / ".cache"
    return parent / "okibi"


def api_key() -> str | None:
    """The key that clients must present (`OKIBI_API_KEY`), or None. An empty value is None."""
    return os.environ.get("OKIBI_API_KEY") or None


def child_environment(**changes: str) -> dict[str, str]:
    """The environment for a child process: this process's own, with `changes` applied."""
    return {**os.environ, **changes}


def compute_environment() -> dict[str, str]:
    """The environment for a child process that computes with torch.

    OpenMP threads that wait for each other by spinning stand still whenever another program needs
    the core that one of them is on: beside a busy process, decoding is several times slower. So
    they sleep soon, unless the user's own OpenMP variables say otherwise.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return child_environment()
    return child_environment(GOMP_SPINCOUNT=str(_GOMP_SPINCOUNT))
