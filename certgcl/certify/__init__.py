"""From a model, a graph and a budget to a certificate: computed, checked, saved, verified."""
