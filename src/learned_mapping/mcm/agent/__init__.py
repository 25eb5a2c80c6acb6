"""The learner of paper 2: GraphSAGE and PPO over repaired partitions, and a policy of our own over costs."""
