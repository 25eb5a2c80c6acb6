"""MMap-MuZero, light: the paper's agent in the size that one core trains (`solve`, `train`)."""
