"""The two-layer GCN encoder, as a trainable module."""

from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from certgcl.arguments import WIDEST, shown, whole
from certgcl.errors import EncoderError
from certgcl.models.layers.trusted import TRUSTED
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import network_of
from certgcl.runtime.randomness import PrivateRandomness, generator_on

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "prelu": nn.PReLU,
    "rrelu": nn.RReLU,
    "identity": nn.Identity,
}


class GCNEncoder(nn.Module):
    """Two ``GCNConv`` layers with two-piece linear activations, the encoder of GRACE and its relatives.

    Args:
        in_channels: number of node features.
        hidden_channels: width of the first layer.
        out_channels: width of the embeddings.
        activation: ``"relu"``, ``"leaky_relu"``, ``"prelu"``, ``"rrelu"`` (in eval mode), ``"identity"``, or a module:
            ``nn.PReLU(hidden_channels)`` for one slope per channel.
        out_activation: the activation after the last layer: ``"same"`` (default), the same module, so that a PReLU's
            slopes are shared; ``None``, a name or a module.

    Example::

        encoder = GCNEncoder(1433, 256, 128, activation="prelu")
        z = encoder(data.x, data.edge_index)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        activation: str | nn.Module = "relu",
        out_activation: str | nn.Module | None = "same",
    ) -> None:
        super().__init__()
        # Numpy integers become plain ones, which torch's own checks of sizes expect.
        in_channels, hidden_channels, out_channels = (
            whole(
                width,
                name,
                1,
                f"widths are positive integers, at most {WIDEST}",
                "Pass an int of at least 1",
                most=WIDEST,
                error=EncoderError,
            )
            for name, width in (
                ("in_channels", in_channels),
                ("hidden_channels", hidden_channels),
                ("out_channels", out_channels),
            )
        )
        self.conv1 = GCNConv(in_channels, hidden_channels)
        self.conv2 = GCNConv(hidden_channels, out_channels)
        self.activation = _activation_module(activation)
        same = isinstance(out_activation, str) and out_activation == "same"
        self.out_activation = self.activation if same else _activation_module(out_activation)
        for name, module, width in (
            ("activation", self.activation, hidden_channels),
            ("out_activation", self.out_activation, out_channels),
        ):
            if isinstance(module, nn.PReLU) and module.num_parameters not in (1, width):
                raise EncoderError(
                    f"{name} with {module.num_parameters} slopes",
                    f"{width} channels need 1 or {width}",
                    f"Pass {name}=nn.PReLU({width})",
                )

    @classmethod
    def from_layers(
        cls,
        conv1: GCNConv,
        conv2: GCNConv,
        activation: str | nn.Module = "relu",
        out_activation: str | nn.Module | None = None,
    ) -> "GCNEncoder":
        """An encoder around two given layers (shared, not copied): for models that cannot be read.

        Nothing follows the last layer unless ``out_activation`` says so. The activations move to the layers' dtype and
        device.
        """
        for name, conv in (("conv1", conv1), ("conv2", conv2)):
            if not isinstance(conv, GCNConv):
                raise EncoderError(
                    f"{name} of type {type(conv).__name__}",
                    "both layers must be GCNConv",
                    "Pass torch_geometric.nn.GCNConv layers",
                )
        if conv2.lin.in_channels not in (-1, conv1.out_channels):
            raise EncoderError(
                f"conv1 with {conv1.out_channels} outputs and conv2 with {conv2.lin.in_channels} inputs",
                "the second layer must take the output of the first",
                "Pass the layers in forward order",
            )
        with PrivateRandomness(generator_on("cpu", 0)):  # placeholders, replaced at once
            encoder = cls(
                conv1.in_channels if conv1.in_channels > 0 else 1,
                conv1.out_channels,
                conv2.out_channels,
                activation,
                out_activation,
            )
        encoder.to(conv1.lin.weight.device, conv1.lin.weight.dtype)
        encoder.conv1, encoder.conv2 = conv1, conv2
        return encoder

    def network(self) -> GraphNetwork:
        """The encoder as a network with gradients, read from its program as by :func:`certgcl.read_network`; it is not
        run."""
        return network_of(self, self.conv1.lin.weight.shape[1])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.activation(self.conv1(x, edge_index))
        embeddings: Tensor = self.out_activation(self.conv2(hidden, edge_index))
        return embeddings


TRUSTED.add_class(GCNEncoder)


def _activation_module(activation: str | nn.Module | None) -> nn.Module:
    if isinstance(activation, nn.Module):
        return activation
    if activation is None:
        return nn.Identity()
    if isinstance(activation, str) and activation in ACTIVATIONS:
        return ACTIVATIONS[activation]()
    raise EncoderError(
        f"activation {shown(activation)}",
        f"names are {', '.join(ACTIVATIONS)}",
        "Pass one of them or a module such as nn.PReLU(channels)",
    )
