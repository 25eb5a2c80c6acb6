"""MMap-MuZero, the agent of paper 1 (section 4.3, Appendix C): search in a learned model of the MMapGame."""
