"""The transformer of Li et al. (2023), of one layer and one head, with the hook points of TransformerLens.

For the tokens x_1 .. x_n of a document, with embeddings ``e = W_E[x]`` of width d,

    A[query, key] = softmax over keys of (W_Q e_query) . (W_K e_key) / sqrt(d)
    logits[query] = W_U sum over keys of A[query, key] W_V e_key + b_U,      W_U = W_E[:n_words]

(their section 2; W_U is tied to the embedding, and is the identity on words when the embedding is one-hot).
There is no residual stream, no layer norm, no MLP and no position. So a document is a bag of words to this model, and
its whole function lies in two matrices over words, which must satisfy

    logits[query] = sum over words w of P[w] * ov_circuit[:, w] + b_U
    P[w] proportional to count[w] * exp(qk_circuit[word of the query, w])

Training uses that identity (:mod:`topic_probes.toy._bags`). It does not hold for a model with positions or a residual.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from .._validation import require_count, require_one_of
from ._topics import word_topics

try:  # its own file since transformer-lens 3; a deprecated name in hook_points from then on
    from transformer_lens.HookedRootModule import HookedRootModule
except ImportError:
    from transformer_lens.hook_points import HookedRootModule

_EMBEDDINGS = ("one_hot", "trained")
_VALUES = ("trained", "identity", "block")
_ATTENTIONS = ("trained", "uniform")


class _Embedding(nn.Module):
    """Rows of W_E; a module of its own, as in TransformerLens, so that a probe sees the ids go in."""

    W_E: Tensor

    def forward(self, tokens: Tensor) -> Tensor:
        return self.W_E[tokens]


class _Attention(nn.Module):
    """One head, every step of it behind the hook point that TransformerLens has there."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_scores, self.hook_pattern, self.hook_z = HookPoint(), HookPoint(), HookPoint()

    def forward(self, embedded: Tensor, mask: Tensor | None) -> Tensor:
        q = self.hook_q((embedded @ self.W_Q.T)[:, :, None])
        k = self.hook_k((embedded @ self.W_K.T)[:, :, None])
        v = self.hook_v((embedded @ self.W_V.T)[:, :, None])
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
        pattern = torch.softmax(self.hook_attn_scores(scores), dim=-1)
        if mask is not None:  # a row without a single token has nothing to look at
            pattern = torch.where(mask.any(dim=1)[:, None, None, None], pattern, 0.0)
        return self.hook_z(torch.einsum("bhqk,bkhd->bqhd", self.hook_pattern(pattern), v))[:, :, 0]


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = _Attention()


class TopicTransformer(HookedRootModule):
    """One layer of one-head attention over words, each part of it trained or frozen (Li et al. 2023).

    The module has the formula. It is a ``HookedRootModule``: ``run_with_hooks``, ``run_with_cache``,
    :func:`topic_probes.attach`, :func:`topic_probes.probe` and :func:`topic_probes.probe_embedding` take it as it is.
    Hook points: ``hook_embed`` [batch, pos, d_model], ``blocks.0.attn.hook_q``, ``hook_k``, ``hook_v``, ``hook_z``
    [batch, pos, head_index, d_model], ``hook_attn_scores`` and ``hook_pattern`` [batch, head_index, query_pos,
    key_pos].

    What is frozen is a buffer, so that an untrained twin has it too; what is trained is a parameter, drawn from a
    normal distribution. One seed draws the same matrices whatever else is frozen.

    Args:
        n_words: words of the vocabulary; their ids are 0 .. n_words-1, and [MASK] is ``n_words``.
        embedding: ``"one_hot"`` (frozen identity) or ``"trained"``.
        value: W_V is ``"trained"``, the ``"identity"``, or a frozen ``"block"`` matrix over words (one-hot embedding
            only): that of ``value_matrix``, or that of ``topics``, where each topic of an input word hands its weight
            evenly to the topic's words (1 / words of the topic, over the number of topics of the input word) and [MASK]
            has none.
        attention: W_Q and W_K are ``"trained"``, or zero for ``"uniform"`` attention.
        d_model: width of a trained embedding; ``n_words`` unless given. A one-hot one is ``n_words + 1`` wide.
        init_scale: standard deviation of the entries of what is trained, at the start. Small ones show two stages.
        topics: topics of words for ``value="block"``: ``TopicLabels`` of ids, ``{word: topics}``, or one for each word.
        value_matrix: [n_words, n_words + 1] (output word, input word), or W_V itself, [d_model, d_model]: the frozen
            block, or where the training of a value matrix begins.
        bias: whether b_U is trained; it is zero otherwise.
        seed: of the weights; torch's global generator is not used.

    Attributes:
        W_E: [n_words + 1, d_model].
        W_V: [d_model, d_model]; with a one-hot embedding ``W_V[i, j]`` is the weight of input word j for output word i,
            and the row of [MASK], which no logit reads, is zero.
        W_Q: [d_model, d_model].
        W_K: [d_model, d_model].
        b_U: [n_words].
        cfg: sizes under TransformerLens' names.

    Raises:
        ValueError: for an option that is not one of those listed, or a combination that makes no sense.
        TypeError: for an argument of another kind.

    Examples:
        >>> import torch
        >>> model = TopicTransformer(3, value="block", topics=[0, 0, 1], attention="uniform")
        >>> model(torch.tensor([[0, 0, 2, 3]]))[0, 0].tolist()
        [0.25, 0.25, 0.25]
    """

    def __init__(
        self,
        n_words: int = 100,
        *,
        embedding: Literal["one_hot", "trained"] = "one_hot",
        value: Literal["trained", "identity", "block"] = "trained",
        attention: Literal["trained", "uniform"] = "trained",
        d_model: int | None = None,
        init_scale: float = 0.02,
        topics: Any = None,
        value_matrix: Any = None,
        bias: bool = False,
        seed: int = 0,
    ) -> None:
        require_count("n_words", n_words)
        require_one_of("embedding", embedding, _EMBEDDINGS)
        require_one_of("value", value, _VALUES)
        require_one_of("attention", attention, _ATTENTIONS)
        require_count("seed", seed, minimum=0)
        init_scale = float(init_scale)
        if not (math.isfinite(init_scale) and init_scale >= 0):
            raise ValueError(f"init_scale must be a finite number of at least 0, got {init_scale!r}")
        width = _width(n_words, embedding, d_model)
        _require_consistent(embedding, value, topics, value_matrix)
        super().__init__()
        self.n_words = int(n_words)
        self.embedding, self.value, self.attention, self.bias = embedding, value, attention, bool(bias)
        self.options = {
            "n_words": self.n_words,
            "embedding": embedding,
            "value": value,
            "attention": attention,
            "d_model": width if embedding == "trained" else None,
            "init_scale": init_scale,
            "bias": self.bias,
            "seed": int(seed),
        }
        """What the model was made with, as plain JSON values; ``topics`` and ``value_matrix`` are in its W_V."""
        self.cfg = SimpleNamespace(
            model_name="TopicTransformer",
            n_layers=1,
            n_heads=1,
            d_model=width,
            d_head=width,
            d_vocab=n_words + 1,
            d_vocab_out=n_words,
            n_ctx=None,  # no positions: a document may have any length
            attn_only=True,
            attention_dir="bidirectional",
            normalization_type=None,
            initializer_range=init_scale,
        )
        self.embed = _Embedding()
        self.hook_embed = HookPoint()
        self.blocks = nn.ModuleList([_Block()])

        generator = torch.Generator().manual_seed(int(seed))
        drawn_rows = torch.randn(n_words + 1, width, generator=generator) * init_scale
        drawn_v, drawn_q, drawn_k = torch.randn(3, width, width, generator=generator) * init_scale
        if embedding == "one_hot":
            drawn_rows = torch.eye(width)
            drawn_v[n_words] = 0.0
        if value_matrix is not None:
            drawn_v = _given_matrix(value_matrix, n_words, width, embedding)
        elif value == "identity":
            drawn_v = torch.eye(width)
        elif value == "block":
            drawn_v = _block_matrix(topics, n_words)
        if attention == "uniform":
            drawn_q, drawn_k = torch.zeros(2, width, width)
        attn = self._attn
        _register(self.embed, "W_E", drawn_rows, trained=embedding == "trained")
        _register(attn, "W_V", drawn_v, trained=value == "trained")
        _register(attn, "W_Q", drawn_q, trained=attention == "trained")
        _register(attn, "W_K", drawn_k, trained=attention == "trained")
        # A parameter also where it is not trained: every model then has one, and so a device and a dtype.
        self.b_U = nn.Parameter(torch.zeros(n_words), requires_grad=self.bias)
        self.setup()
        self.eval()

    def forward(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return logits [batch, pos, n_words] of token ids [batch, pos] (or [pos]: a batch of one).

        Args:
            tokens: ids in 0 .. n_words, where ``n_words`` is [MASK].
            attention_mask: [batch, pos], 0 for pads: no query sees them. None if there are none.

        Raises:
            TypeError: if ``tokens`` are not whole numbers.
            ValueError: if an id is outside the vocabulary, or the mask has another shape.
        """
        if tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise TypeError(f"tokens must be whole numbers (ids of words), got {tokens.dtype}")
        tokens = tokens[None] if tokens.ndim == 1 else tokens
        if tokens.numel() and (int(tokens.min()) < 0 or int(tokens.max()) > self.n_words):
            raise ValueError(
                f"tokens must be in 0 .. {self.n_words} ({self.n_words} is [MASK]), got {int(tokens.min())} to "
                f"{int(tokens.max())}"
            )
        if attention_mask is not None:
            attention_mask = attention_mask[None] if attention_mask.ndim == 1 else attention_mask
            if attention_mask.shape != tokens.shape:
                raise ValueError(
                    f"attention_mask must have the shape of tokens, {tuple(tokens.shape)}, got "
                    f"{tuple(attention_mask.shape)}"
                )
            attention_mask = attention_mask.to(tokens.device) != 0
        mixed = self._attn(self.hook_embed(self.embed(tokens)), attention_mask)
        return mixed @ self.W_E[: self.n_words].T + self.b_U

    @property
    def _attn(self) -> _Attention:
        return self.blocks[0].attn  # type: ignore[return-value]

    @property
    def W_E(self) -> Tensor:
        """[n_words + 1, d_model] embeddings; the last row is [MASK]'s."""
        return self.embed.W_E

    @property
    def W_V(self) -> Tensor:
        """[d_model, d_model] value matrix, for column vectors."""
        return self._attn.W_V

    @property
    def W_Q(self) -> Tensor:
        """[d_model, d_model] query matrix, for column vectors; zero when attention is uniform."""
        return self._attn.W_Q

    @property
    def W_K(self) -> Tensor:
        """[d_model, d_model] key matrix, for column vectors; zero when attention is uniform."""
        return self._attn.W_K

    def ov_circuit(self) -> Float[Tensor, "n_words d_vocab"]:
        """Return ``W_U W_V W_E^T`` [output word, input word]: what a word adds to each logit per unit of attention."""
        if self.embedding == "one_hot":
            return self.W_V[: self.n_words]
        out = self.W_E[: self.n_words]
        return out @ self.W_E.T if self.value == "identity" else out @ self.W_V @ self.W_E.T

    def qk_circuit(self) -> Float[Tensor, "d_vocab d_vocab"]:
        """Return ``W_E W_Q^T W_K W_E^T / sqrt(d)`` [query word, key word]: the score of each pair of words."""
        scale = math.sqrt(self.cfg.d_head)
        if self.embedding == "one_hot":
            return self.W_Q.T @ self.W_K / scale
        return (self.W_E @ self.W_Q.T) @ (self.W_K @ self.W_E.T) / scale


def _width(n_words: int, embedding: str, d_model: int | None) -> int:
    if embedding == "one_hot":
        if d_model not in (None, n_words + 1):
            raise ValueError(
                f"d_model must be n_words + 1 = {n_words + 1} for a one-hot embedding, got {d_model!r}: leave it out, "
                'or pass embedding="trained"'
            )
        return n_words + 1
    if d_model is None:
        return n_words
    require_count("d_model", d_model)
    return int(d_model)


def _require_consistent(embedding: str, value: str, topics: Any, value_matrix: Any) -> None:
    if value == "block":
        if embedding != "one_hot":
            raise ValueError(
                'value="block" is a matrix over words and needs embedding="one_hot", got embedding="trained": pass '
                'value="identity" or "trained"'
            )
        if (topics is None) == (value_matrix is None):
            raise ValueError('value="block" needs topics= (of words) or else value_matrix=, got both or neither')
    elif topics is not None:
        raise ValueError(f'topics make a frozen value matrix, and value is {value!r}: pass value="block"')
    elif value == "identity" and value_matrix is not None:
        raise ValueError('value_matrix cannot be given with value="identity": pass value="block" or "trained"')


def _given_matrix(value_matrix: Any, n_words: int, width: int, embedding: str) -> Tensor:
    given = value_matrix.detach().cpu().numpy() if isinstance(value_matrix, Tensor) else np.asarray(value_matrix)
    matrix = torch.zeros(width, width)
    if given.shape == (width, width):
        matrix[:] = torch.tensor(given, dtype=torch.float64)
    elif embedding == "one_hot" and given.shape == (n_words, n_words + 1):
        matrix[:n_words] = torch.tensor(given, dtype=torch.float64)
    else:
        words = f"[{n_words}, {n_words + 1}] (output word, input word) or " if embedding == "one_hot" else ""
        raise ValueError(f"value_matrix must be {words}[{width}, {width}], got shape {list(given.shape)}")
    return matrix


def _block_matrix(topics: Any, n_words: int) -> Tensor:
    table = word_topics(topics, n_words).astype(np.float64)
    of_topic = table / np.maximum(table.sum(axis=0), 1)
    of_word = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    matrix = torch.zeros(n_words + 1, n_words + 1)
    matrix[:n_words, :n_words] = torch.tensor(of_topic @ of_word.T)
    return matrix


def _register(module: nn.Module, name: str, matrix: Tensor, *, trained: bool) -> None:
    matrix = matrix.clone().contiguous()
    if trained:
        module.register_parameter(name, nn.Parameter(matrix))
    else:
        module.register_buffer(name, matrix)
