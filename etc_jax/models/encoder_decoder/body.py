"""BART, T5, LED, LongT5, BART-LS: an encoder, a decoder that reads it, and logits.

One assembly of shared blocks: families differ by the choices of their configs and by
what the tokens of the encoder see.
"""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.block import one_stream
from etc_jax.layers.common import Dense, Embed, truncated_normal
from etc_jax.layers.dropout import Dropout
from etc_jax.layers.encoder import positions_of
from etc_jax.layers.relative_bias import RelativeBias
from etc_jax.layers.self_attention import Memory, Pattern, SequenceInputs
from etc_jax.layers.stack import Period, Stack
from etc_jax.models.config_problems import refuse
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig, Side
from etc_jax.models.encoder_decoder.layers import make_layer, make_norm
from etc_jax.models.sled import body as sled
from etc_jax.ops import chunked_loss
from etc_jax.ops.chunked_loss import FactoredLogits


class OneSide(nn.Module):
    """The encoder or the decoder: rows of the token table to rows.

    Attributes:
      config: of the model.
      side: which of the two.
      deterministic: no dropout.
    """

    config: EncoderDecoderConfig
    side: Side
    deterministic: bool = True

    def setup(self):
        c, side = self.config, self.side
        if c.positions == "learnt":
            self.position_embedder = Embed(
                side.max_length + c.position_offset,
                c.embed_dim,
                embedding_init=truncated_normal(c.spreads(side).table),
                dtype=c.compute_dtype,
            )
        else:
            self.relpos_bias = self._relative_bias()
            sums = any("block_bias" in p.reads for p in side.patterns)
            self.block_relpos_bias = self._relative_bias() if sums else None
        if c.embed_norm:
            self.embed_norm = make_norm(c)
        self.dropout = Dropout(c.dropout_rate)
        if below := side.num_layers - side.top_layers:
            self.stack = self._stack(side.patterns, below)
        if side.top_layers:
            self.top_stack = self._stack((side.top_pattern,), side.top_layers)
        if c.final_norm:
            self.final_norm = make_norm(c)

    def _stack(self, patterns: tuple[Pattern, ...], num_layers: int) -> Stack:
        """One scan over runs of `patterns`, as in `models.encoder`."""
        c = self.config
        layers = tuple(
            make_layer(c, self.side, self.deterministic, i, pattern)
            for i, pattern in enumerate(patterns)
        )
        return Stack(
            functools.partial(Period, layers, name="period"),
            num_layers // len(layers),
            c.scan_layers,
            c.remat_policy,
            c.compute_dtype,
        )

    def _relative_bias(self) -> RelativeBias:
        c, side = self.config, self.side
        return RelativeBias(
            c.num_buckets,
            c.max_distance,
            side.num_heads,
            side.causal,
            c.spreads(side).bias,
        )

    def __call__(self, x: jax.Array, inputs: SequenceInputs) -> jax.Array:
        """`[b, n, e]` of the token table -> the same shape.

        Args:
          x: of the tokens, scaled.
          inputs: of the batch, without the biases that are made here.
        """
        positions = positions_of(inputs.example_ids, self.side.real_positions)
        x = self.start(x, positions)
        self.sow("intermediates", "embedded", x)
        inputs = self.with_biases(inputs)
        if self.side.num_layers > self.side.top_layers:
            x = self.stack(x, inputs)
        if self.side.top_layers:
            x = self.top_stack(x, inputs)
        return self.finish(x)

    def start(self, x: jax.Array, positions: jax.Array) -> jax.Array:
        """Rows of tokens -> what the first layer reads, `[b, n, e]`.

        Args:
          x: `[b, n, e]`.
          positions: int `[b, n]`.
        """
        c = self.config
        if c.positions == "learnt":
            x = x + self.position_embedder(positions + c.position_offset)
        if c.embed_norm:
            x = self.embed_norm(x)
        return self.dropout(x, deterministic=self.deterministic)

    def with_biases(self, inputs: SequenceInputs) -> SequenceInputs:
        """The inputs with the biases of relative positions, if the model has them."""
        if self.config.positions == "learnt":
            return inputs
        # One table for all layers of the stack.
        inputs = inputs._replace(bias=self.relpos_bias())
        if self.block_relpos_bias is None:
            return inputs
        return inputs._replace(block_bias=self.block_relpos_bias())

    def finish(self, x: jax.Array) -> jax.Array:
        """Rows after the last layer -> those of the stack, `[b, n, e]`."""
        c = self.config
        if c.final_norm:
            x = self.final_norm(x)
        if c.final_dropout:
            x = self.dropout(x, deterministic=self.deterministic)
        return x


class EncoderDecoder(nn.Module):
    """Text to text: logits of each token of a target after those before it.

    Attributes:
      config: sizes and choices.
      deterministic: no dropout.
    """

    config: EncoderDecoderConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        refuse(c)
        spreads = c.spreads(c.encoder_side)

        def table() -> Embed:
            return Embed(
                c.vocab_size,
                c.embed_dim,
                embedding_init=truncated_normal(spreads.table),
                dtype=c.compute_dtype,
            )

        self.token_embedder = table()
        if not c.shared_table:
            self.decoder_token_embedder = table()
        self.encoder = self.make_side(c.encoder_side)
        self.decoder = self.make_side(c.decoder_side)
        if not c.tied_logits:
            sizes = (c.vocab_size,), spreads.logits, c.compute_dtype
            self.logits = Dense(*sizes, use_bias=False, wide=True)
        if c.logits_bias:
            zeros = nn.initializers.zeros
            self.logits_bias = self.param("logits_bias", zeros, (c.vocab_size,))

    def make_side(self, side: Side) -> nn.Module:
        """The encoder or the decoder; called as `OneSide`."""
        return OneSide(self.config, side, self.deterministic)

    def _embedded(self, what: str, tokens: jax.Array, side: Side) -> jax.Array:
        if tokens.ndim != 2:
            raise ValueError(f"{what} has shape {tokens.shape}, expected [batch, n]")
        field, longest = "max_length", self.config.position_limit
        if side.causal:
            field, longest = "max_target_length", self.config.longest_target
        if longest is not None and tokens.shape[1] > longest:
            raise ValueError(
                f"{what} has {tokens.shape[1]} tokens, but {field} is {longest}; cut "
                "it, or stretch the positions"
            )
        table = self._target_table if side.causal else self.token_embedder
        # [b, n] -> [b, n, e]
        return table(tokens) * self.config.token_scale

    @property
    def _target_table(self) -> Embed:
        """Of the tokens that the decoder reads."""
        if self.config.shared_table:
            return self.token_embedder
        return self.decoder_token_embedder

    def encode(self, input_tokens, input_example_ids=None, global_index=None):
        """What the decoder reads; arguments as of `__call__`."""
        if global_index is not None and not self.config.has_globals:
            raise ValueError(
                f"global_index is given, which the encoder of a "
                f"{type(self.config).__name__} does not read; leave it out"
            )
        if input_example_ids is None:
            input_example_ids = jnp.ones_like(input_tokens, jnp.int32)
        if self.config.sled.window:
            if not self.is_initializing():
                return sled.encode(self, input_tokens, input_example_ids)
            # Parameters are made by one window, which is whole on each device.
            with sharding.whole_sequences():
                rows = self.read(input_tokens, input_example_ids)
        else:
            rows = self.read(input_tokens, input_example_ids, global_index)
        return Memory(rows, input_example_ids)

    def read(self, tokens, example_ids, global_index=None) -> jax.Array:
        """Rows `[b, n, e]` of the encoder, which is given `[b, n]` whole."""
        x = self._embedded("input_tokens", tokens, self.config.encoder_side)
        return self.encoder(x, SequenceInputs(example_ids, global_index))

    def embedded_targets(self, tokens: jax.Array) -> jax.Array:
        """int `[b, m]` that the decoder reads -> `[b, m, e]` of the token table."""
        return self._embedded("decoder_tokens", tokens, self.config.decoder_side)

    def decode(self, memory: Memory, decoder_tokens, target_example_ids=None):
        """Rows `[b, m, e]` from which logits are made; see `__call__`."""
        if target_example_ids is None:
            target_example_ids = jnp.ones_like(decoder_tokens, jnp.int32)
        # Where the input is split over devices, the decoder, whose sequence is short,
        # is computed by each of them, with all of the memory.
        with sharding.whole_sequences():
            x = self.embedded_targets(decoder_tokens)
            memory = memory._replace(rows=one_stream(memory.rows))
            return self.decoder(x, SequenceInputs(target_example_ids, memory=memory))

    def _kernel_and_bias(self) -> tuple[jax.Array, jax.Array]:
        """`[e, vocabulary]` and `[vocabulary]` of the logits of scaled rows."""
        c = self.config
        if c.tied_logits:
            kernel = self._target_table.embedding.T
        else:
            kernel = self.logits.variables["params"]["kernel"]
        bias = self.logits_bias if c.logits_bias else jnp.zeros(c.vocab_size)
        return kernel, bias

    def __call__(
        self,
        input_tokens: jax.Array,
        decoder_tokens: jax.Array,
        input_example_ids: jax.Array | None = None,
        target_example_ids: jax.Array | None = None,
        global_index: jax.Array | None = None,
    ) -> jax.Array:
        """Logits of the token after each of `decoder_tokens`.

        Args:
          input_tokens: int `[b, n]`, of the encoder.
          decoder_tokens: int `[b, m]`: the target, moved one place on.
          input_example_ids: int `[b, n]`; 0 is padding, packed examples do not see each
            other; None: one example a row.
          target_example_ids: int `[b, m]`; a token sees the input of its number.
          global_index: int `[b, g]`, where the global tokens of a LED's input stand,
            -1 for none; None: no token is global.

        Returns:
          float32 `[b, m, vocabulary]`.

        Raises:
          ValueError: if the shapes do not fit the config.
        """
        memory = self.encode(input_tokens, input_example_ids, global_index)
        return self.vocabulary_logits(
            self.decode(memory, decoder_tokens, target_example_ids)
        )

    def vocabulary_logits(self, x: jax.Array) -> jax.Array:
        """Rows `[b, m, e]` of `decode` -> float32 `[b, m, vocabulary]`."""
        if self.is_initializing() and not self.config.tied_logits:
            self.logits(x)
        kernel, bias = self._kernel_and_bias()
        with sharding.whole_sequences():
            # [b, m, e] x [e, vocabulary] -> float32 [b, m, vocabulary]
            return chunked_loss.logits(self._scaled(x), kernel) + bias[None, None]

    def factored_logits(
        self,
        memory: Memory,
        decoder_tokens: jax.Array,
        target_example_ids: jax.Array | None = None,
    ) -> FactoredLogits:
        """Logits `[b, m, vocabulary]` of the token after each one, not yet computed.

        Args:
          memory: of `encode`.
          decoder_tokens: see `__call__`.
          target_example_ids: see `__call__`.
        """
        x = self._scaled(self.decode(memory, decoder_tokens, target_example_ids))
        size = self.config.logits_chunk_length
        return FactoredLogits(x, *self._kernel_and_bias(), size)

    def _scaled(self, x: jax.Array) -> jax.Array:
        return x.astype(self.config.compute_dtype) * self.config.logits_scale

    def losses(
        self,
        input_tokens: jax.Array,
        decoder_tokens: jax.Array,
        targets: jax.Array,
        input_example_ids: jax.Array | None = None,
        target_example_ids: jax.Array | None = None,
        global_index: jax.Array | None = None,
        *,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> tuple[jax.Array, jax.Array]:
        """Cross entropy of each target, of `logits_chunk_length` tokens at once.

        Args:
          input_tokens: see `__call__`.
          decoder_tokens: see `__call__`.
          targets: int `[b, m]`, what follows each of `decoder_tokens`.
          input_example_ids: see `__call__`.
          target_example_ids: see `__call__`.
          global_index: see `__call__`.
          label_smoothing: see `ops.chunked_loss.cross_entropy`.
          z_loss: see there.

        Returns:
          (float32 `[b, m]` in nats, bool `[b, m]`: whether a target is the likeliest).

        Raises:
          ValueError: if the shapes do not fit the config.
        """
        memory = self.encode(input_tokens, input_example_ids, global_index)
        predicted = self.factored_logits(memory, decoder_tokens, target_example_ids)
        extra = {"label_smoothing": label_smoothing, "z_loss": z_loss}
        with sharding.whole_sequences():
            return predicted.cross_entropy(targets, **extra)
