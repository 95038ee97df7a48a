"""Puts the peers and their forms of the weights on this machine, once."""
