"""Proofs of certificates, by a program that does not trust the library: it imports NumPy and python-flint, and nothing
else.

**What is proved.** ``w_i · z_i(S) >= lower_i - rounding_i``, in exact arithmetic, for a node i of a certificate and
every admissible change S (``changes.py``): edges that go, at most ``q_j`` at each node j and Q in all; candidates that
become edges, at most ``a_j`` and A, and of both together at most ``f_j`` and F; and features that change, within
budgets of their own. With both views free, the left side is ``W^CL_i(S2) · z_i(S1)``, for all pairs of these. Layers
are numbered from 1, ``h^0`` is X, ``n_i`` the number of neighbours that i has then, and

    p^l_i = Σ_terms ( own(n_i) W' h^m_i + out(n_i) Σ_{kept k} in(n_k) W' h^m_k ) + b_l,     h^l_i = σ_l(p^l_i),      (1)

with scales ``own, out, in >= 0`` that are functions of a node's number of neighbours; z is the outputs of some layers
side by side. W^CL, tightened budgets, scales and everything else are computed here from graph, weights and budgets.
From the certificate's own computation only *choices* (``Choices``) are used, and everything below holds for any
choices: a forged one can only make a proof fail.

**States.** The state of a node is (t, a), the numbers of edges that it loses and gains; then ``n = d - t + a`` and its
scales are numbers. All ranges and bounds are for one state at a time. While the edge (i, k) is kept and i is in state
(t, a), k is in a state (t', a') with ``t' <= min(q_k, edges of k other than (i, k) that can go)``, ``t + t' <= Q``,
``a + a' <= A`` and ``t + t' + a + a' <= F``, as the edges that i and k lose and gain are different ones. If (i, k) is
new, it is one that both have gained: ``a, a' >= 1``, and it counts once in the sums.

**Lemma R** (``rows.py``). Let node i lose t edges, and let ``g_k`` be at most the term of neighbour k whenever its edge
is kept. Then the sum over the kept ones is at least the sum of all ``g_k`` without the t largest of those that can go.
*Proof.* Exactly t of those that can go are gone, whichever they are. ∎ If one neighbour is known to be kept, the same
holds for the others. The a candidates that came add at least the sum of the a smallest ``g_c``; if one of them is
known, the others add at least the sum of the a - 1 smallest. *With few edges in all, and none new*: all kept neighbours
together lose at most ``U = (Q - t) + min(Q - t, edges between them that can go)``, as a lost edge is counted at most at
its two ends. So at any price ``μ >= 0``, the sum of their terms is at least the sum with μ added for each edge that
they lose, less ``μ U``; and for these larger terms the same lemma holds.

**Lines** (``lines.py``, ``activations.py``). For any slopes a, a', ``ω σ(p) >= λ p + c`` on ``[low, high]`` with
``λ = ω+ a + ω- a'`` and ``c = ω+ min(σ(p) - a p) + ω- max(σ(p) - a' p)``. For ``σ = max(p, γ p)`` and ω < 0 (or min,
and ω > 0), ``ω σ(p)`` is the smaller of ``ω p`` and ``ω γ p``: the least over all ways to give some channels one of the
two is a bound without a line there.

**Theorem A** (``theorem.py``). Let i be in state t. For l from the last layer down, lines on the range of ``p^l_i`` in
that state give ``ω_l · h^l_i >= λ · p^l_i + c``, and by (1) ``λ · p^l_i`` is ``λ · b_l``, ``own(n_i) W λ · h^m_i``,
which is added to ``ω_m``, and what is passed on to the neighbours, ``out(n_i) Σ in(n_k) W λ · h^m_k``. So

    Σ_l ω_l · h^l_i  >=  e + Σ_{kept k} Σ_terms out(n_i) in(n_k) β · h^m_k .                                         (2)

The term of k in state s is at least what ranges of ``h_k`` in that state give; and at least what (2) for k gives, with
Lemma R over the other neighbours of k, whose terms come from ranges, and with i among them in its known state t. The
larger of the two, and then the least over the states s of k beside t, is a ``g_k`` for Lemma R at i. The least over the
states t of i is a lower bound. *Proof.* Every step replaces a number by one that is no larger, or is the identity (1);
for a given S each node is in one state, and the bound of that state is among those of which the least is taken. ∎
Ranges of ``p^l`` are such bounds of its channels and of their negatives, layer by layer. Layers that depend only on a
node's own edges are evaluated for every set of them if there are few (``Bound._by_sets``): for their own ranges, for
the output, and for functionals of them at a neighbour k, whose edge to i is in none of its sets.

**Features** (``inputs.py``). Where features of a node appear, as ``μ · x_k``, the least over its admissible features
takes its place: it is a bound of the same term. If only features change, Theorem B (``fixed.py``) merges all paths to
a node first, and uses totals and columns that all nodes share. Where few columns can be masked, each set of them is a
graph of its own, on which the edges alone change: the least over these graphs is the least over all changes.

**Cases** (``cases.py``). An edge goes or it does not. In the first case it is removed from the graph and subtracted
from the budgets, in the other it cannot go; likewise a candidate becomes an edge, or is no longer a candidate. If both
are proved, so is the whole. Where few sets of edges and of features can change around a node, (1) is evaluated on each
of these graphs (``views.py``).

**Arithmetic** (``arithmetic.py``). All numbers are float64 with a bound of their rounding errors that is itself proved,
subnormal numbers included; smooth activations come from Arb. Functionals λ and β are floats, by choice: the distance of
β from ``W λ`` is multiplied by the largest ``|h|`` and subtracted.

**Both views** (``compactness.py``). Where the second view is free too, Theorem C leaves questions about the first one.

*To be trusted*: the files of ``core``, whose names are above; ``files.py`` and ``claim.py`` for what the proof is
about; NumPy's float64 arithmetic, python-flint, and the processor. ``choices.py`` and ``search.py`` only choose.
"""
