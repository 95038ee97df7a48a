"""The data plane: who owns which page, what stays warm, what moves. No torch and no I/O."""
