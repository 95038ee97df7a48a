"""The shared vocabulary: values, protocols and hashing. Standard library only."""
