"""Makes `python -m okibi` the same as the `okibi` command.

Owns nothing but that; it must never grow logic of its own. The command line itself is
`okibi.cli`.
"""

from okibi.cli import main

if __name__ == "__main__":
    main()
