"""The words in which a model is refused."""

from certgcl.errors import EncoderError
from certgcl.reading.nodes import Place

FORMULA = "the model must compute σ2(Â σ1(Â X W1 + b1) W2 + b2)"
ONLY = ("only an activation σ(p) = p for p >= 0 and γ p below may follow a layer: no other activation, normalization, "
        "residual connection, jumping knowledge or head")
LAYERS = ("If two GCNConv and two-piece linear activations are all you need of the model, pass "
          "certgcl.GCNEncoder.from_layers(conv1, conv2, activation, out_activation)")
PROBED = ('reading="probed" measures what cannot be read, which is no proof; the certificate then says so')
CALLED = "the model must run as model(x, edge_index) on any graph with its number of features"
WRAP = f"Wrap it in a module with that forward. {LAYERS}"
READABLE = "forward must be readable line by line, and do nothing that depends on the edges but call its layers"


def refusal(found: str, place: Place, rule: str = READABLE, remedy: str = f"{LAYERS}. {PROBED}") -> EncoderError:
    """An error for something at a place of the source."""
    return EncoderError(f"{found} at {place}", rule, remedy)
