"""One folder an op: `reference.py` in plain torch is the oracle, faster twins stand beside it.

A folder's `__init__` exports the function that models and runners call.
"""
