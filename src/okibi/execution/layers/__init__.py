"""Building blocks that model files share: norms, rotary angles, the attention seam."""
