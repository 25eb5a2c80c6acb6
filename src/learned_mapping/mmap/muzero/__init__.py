"""MMap-MuZero, the agent of paper 1 (section 4.3, Appendix C): search in a learned model of the MMapGame.

=================  ====================================================================================================
`config`           every number; the profiles; what the paper leaves open
`position`         the game as the agent plays it: real decisions only, rewards, Drop-backup
`representation`   what the agent sees (section 4.3.1)
`network`          representation (Fig. 4), dynamics, reward, value, policy
`search`           PUCT as in the paper, or Gumbel, in the learned model
`exact_search`     the ablation that searches with the true dynamics and learns nothing
`records`          a game in progress, and what it leaves for the replay
`demonstrations`   mappings as games
`selfplay`         games side by side, one network call for all
`reanalyse`        batches: fresh targets for some samples, n-step returns
`learner`          the loss and the training step
`agent`            all of it in turns; its state
`curve`            the learning curve's columns
`solve`            a program and a budget in, a mapping out
=================  ====================================================================================================

Where this agent is not the paper's, even at the profile ``paper``: the paper's actors and learner run side by side on
many machines, here they take turns; forced moves are no decisions; the network's sizes are ours.
"""
