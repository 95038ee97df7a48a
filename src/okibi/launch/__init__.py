"""The composition root: the only place that joins control to execution."""
