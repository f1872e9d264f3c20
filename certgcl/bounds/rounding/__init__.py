"""How far floating point can move a bound, its directions, and the model as it is run."""
