"""The posterior by sampling: the paper's MCMC baselines and an exact reference, as engines like any network."""
