"""The same control code on modelled hardware, in virtual time. No torch, no wall clock, no I/O."""
