"""ELECTRA, ALBERT, DistilBERT and RoBERTa as bridges: hook values against what transformers returns for the same input.

Equal means equal to the last bit, in float32 and with padding. The reference is a second copy of the model, because a
bridge takes the modules of the one that it wraps.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import helpers
import oracles
import tiny_models
import topic_probes
from topic_probes import TopicLabels, architectures

# `helpers.HAS_BRIDGE` is False for transformer-lens 2.x.
needs_bridge = pytest.mark.skipif(not helpers.HAS_BRIDGE, reason="transformer-lens 2.x has no bridges")

ENCODERS = {
    "RoBERTa": 2,
    "ELECTRA generator": 2,
    "ELECTRA generator, narrow embeddings": 2,
    "ELECTRA discriminator": 2,
    "ELECTRA discriminator, narrow embeddings": 2,
    "ALBERT": 3,
    "ALBERT, groups": 6,
    "DistilBERT": 2,
}
"""Name -> number of layers."""

every_encoder = pytest.mark.parametrize("name", ENCODERS)

LABELS = TopicLabels.from_dict({5: 0, 6: 0, 7: 0, 8: 1, 9: 1, 10: 1, 11: [0, 1], 12: 2, 13: 2})


@pytest.fixture(autouse=True)
def _registered() -> None:
    architectures.register()


def batch(model: Any, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Three rows of 9, 6 and 4 real tokens, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, tiny_models.N_VOCABULARY, (3, 9), generator=generator)
    mask = torch.ones_like(ids)
    for row, length in enumerate((9, 6, 4)):
        ids[row, length:] = model.config.pad_token_id
        mask[row, length:] = 0
    return ids, mask


def values(bridge: Any, hooks: list[str], ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """What comes by at each hook, by the name that was asked for."""
    found: dict[str, torch.Tensor] = {}

    def keep(asked: str) -> Any:
        def hook(tensor: torch.Tensor, hook: Any) -> None:
            found[asked] = tensor.detach().clone()

        return hook

    with torch.no_grad(), bridge.hooks(fwd_hooks=[(name, keep(name)) for name in hooks]):
        found["logits"] = bridge(ids, attention_mask=mask)
    return found


def reference(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> Any:
    with torch.no_grad():
        return model(ids, attention_mask=mask, output_attentions=True, output_hidden_states=True)


ELSEWHERE = 1e-5
"""Weights that were read from a file lie at other addresses, where the kernels may sum in another order."""


def assert_equals_transformers(bridge: Any, model: Any, tolerance: float = 0.0) -> None:
    """Patterns, residual stream and output of a bridge are those of the model, and there are as many layers."""

    def assert_equal(one: torch.Tensor, other: torch.Tensor) -> None:
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)

    ids, mask = batch(model)
    layers = range(bridge.cfg.n_layers)
    names = [
        f"blocks.{i}.{hook}" for i in layers for hook in ("attn.hook_pattern", "hook_resid_pre", "hook_resid_post")
    ]
    found = values(bridge, names, ids, mask)
    expected = reference(model, ids, mask)
    assert len(expected.attentions) == len(layers)
    for i in layers:
        assert_equal(found[f"blocks.{i}.attn.hook_pattern"], expected.attentions[i])
        assert_equal(found[f"blocks.{i}.hook_resid_pre"], expected.hidden_states[i])
        assert_equal(found[f"blocks.{i}.hook_resid_post"], expected.hidden_states[i + 1])
    assert_equal(found["logits"], expected.logits)


@needs_bridge
@every_encoder
def test_hook_values_equal_what_transformers_returns(name: str) -> None:
    """Pattern, input and output of every layer, and the logits, bit by bit, with padded rows."""
    model = tiny_models.MODELS[name]()
    bridge = helpers.bridge(tiny_models.MODELS[name]())
    assert bridge.cfg.n_layers == ENCODERS[name]
    assert_equals_transformers(bridge, model)


@needs_bridge
@every_encoder
def test_the_embedding_is_the_models_own(name: str) -> None:
    """W_E is the matrix of word vectors; hook_embed is what goes to the layers, before any projection."""
    model = tiny_models.MODELS[name]()
    bridge = helpers.bridge(tiny_models.MODELS[name]())
    trunk = getattr(model, model.base_model_prefix)
    assert torch.equal(bridge.W_E, model.get_input_embeddings().weight)
    ids, mask = batch(model)
    found = values(bridge, ["hook_embed", "embed.hook_out"], ids, mask)
    with torch.no_grad():
        assert torch.equal(found["hook_embed"], trunk.embeddings(ids))
        assert torch.equal(found["embed.hook_out"], model.get_input_embeddings()(ids))


@needs_bridge
@every_encoder
def test_the_parts_of_a_layer_fit_together(name: str) -> None:
    """The pattern weighs values into z; each norm takes the sum that it normalises; the last one ends the layer."""
    bridge = helpers.bridge(tiny_models.MODELS[name]().double())
    ids, mask = batch(bridge.original_model)
    hooks = [
        *("hook_resid_pre", "hook_resid_post", "hook_mlp_out", "ln1.hook_in", "ln1.hook_out", "ln2.hook_in"),
        *("ln2.hook_out", "attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_z", "attn.hook_pattern"),
        "attn.o.hook_out",
    ]
    found = values(bridge, [f"blocks.{i}.{hook}" for i in range(bridge.cfg.n_layers) for hook in hooks], ids, mask)
    for i in range(bridge.cfg.n_layers):
        part = {hook: found[f"blocks.{i}.{hook}"] for hook in hooks}
        scores = torch.einsum("bqhd,bkhd->bhqk", part["attn.hook_q"], part["attn.hook_k"]) / 8**0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf)
        torch.testing.assert_close(scores.softmax(dim=-1), part["attn.hook_pattern"])
        z = torch.einsum("bhqk,bkhd->bqhd", part["attn.hook_pattern"], part["attn.hook_v"])
        torch.testing.assert_close(z, part["attn.hook_z"])
        torch.testing.assert_close(part["attn.o.hook_out"] + part["hook_resid_pre"], part["ln1.hook_in"])
        torch.testing.assert_close(part["hook_mlp_out"] + part["ln1.hook_out"], part["ln2.hook_in"])
        assert torch.equal(part["ln2.hook_out"], part["hook_resid_post"])


SWITCHED_OFF = ("hook_result", "hook_q_input", "hook_k_input", "hook_v_input", "attn_in", "mlp_in")
"""Hooks that TransformerLens lets nobody ask for unless an option is set."""


@needs_bridge
@every_encoder
def test_every_layer_has_bert_s_hook_names(name: str) -> None:
    """Whatever a layer of BERT's own bridge offers, a layer of ours does, and it fires where BERT's does."""
    bert = helpers.bridge(tiny_models.bert())
    bridge = helpers.bridge(tiny_models.MODELS[name]())

    def fired(model: Any) -> set[str]:
        ids, mask = torch.full((1, 5), 7), torch.ones(1, 5, dtype=torch.long)
        return {hook.removeprefix("blocks.1.") for hook in values(model, layer_hooks(model), ids, mask)}

    def layer_hooks(model: Any) -> list[str]:
        return [hook for hook in model.hook_dict if hook.startswith("blocks.1.") and not hook.endswith(SWITCHED_OFF)]

    assert {hook.removeprefix("blocks.1.") for hook in layer_hooks(bert)} <= {
        hook.removeprefix("blocks.1.") for hook in layer_hooks(bridge)
    }
    assert fired(bert) <= fired(bridge)


@needs_bridge
@every_encoder
def test_the_configuration_is_the_models(name: str) -> None:
    model = tiny_models.MODELS[name]()
    cfg = helpers.bridge(tiny_models.MODELS[name]()).cfg
    assert (cfg.d_model, cfg.n_heads, cfg.d_head, cfg.d_mlp) == (24, 3, 8, 32)
    assert (cfg.n_ctx, cfg.d_vocab) == (tiny_models.N_CONTEXT, tiny_models.N_VOCABULARY)
    assert cfg.attention_dir == "bidirectional" or (name == "RoBERTa" and not is_ours("RobertaForMaskedLM"))
    assert cfg.eps == 1e-12
    assert cfg.act_fn == ("gelu_new" if name.startswith("ALBERT") else "gelu")
    # A row as long as the context runs, one longer does not: the limit is the model's own.
    ids = torch.full((1, cfg.n_ctx), 7)
    model(ids)
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, cfg.n_ctx + 1), 7))


@needs_bridge
def test_albert_s_layers_share_one_set_of_weights() -> None:
    """Unrolling adds no parameter, and a change in one layer is a change in all."""
    model = tiny_models.albert()
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    bridge = helpers.bridge(model)
    assert sum(parameter.numel() for parameter in bridge.parameters()) == n_parameters
    queries = [block.attn.q.weight for block in bridge.blocks]
    assert len({id(query) for query in queries}) == 1
    with torch.no_grad():
        queries[0].mul_(2.0)
    twin = tiny_models.albert()
    with torch.no_grad():
        twin.albert.encoder.albert_layer_groups[0].albert_layers[0].attention.query.weight.mul_(2.0)
    assert_equals_transformers(bridge, twin)


@needs_bridge
def test_albert_s_layers_are_told_apart() -> None:
    """An intervention on one layer changes the later ones and not the earlier."""
    bridge = helpers.bridge(tiny_models.albert())
    ids, mask = batch(bridge.original_model)
    names = [f"blocks.{i}.attn.hook_pattern" for i in range(3)]
    before = values(bridge, names, ids, mask)
    with bridge.hooks(fwd_hooks=[("blocks.1.hook_resid_pre", lambda tensor, hook: tensor * 0.5)]):
        after = values(bridge, names, ids, mask)
    assert [torch.equal(before[name], after[name]) for name in names] == [True, False, False]


@needs_bridge
@pytest.mark.parametrize("name", ["ALBERT", "ALBERT, groups"])
def test_albert_can_be_cast(name: str) -> None:
    """Shared weights stay shared when the bridge changes its precision."""
    bridge = helpers.bridge(tiny_models.MODELS[name]()).to(torch.float64)
    assert_equals_transformers(bridge, tiny_models.MODELS[name]().double())


@needs_bridge
def test_a_discriminator_has_no_unembedding() -> None:
    """Its logits are one number a token; the parts of its head have hooks."""
    model = tiny_models.electra_discriminator_narrow()
    bridge = helpers.bridge(tiny_models.electra_discriminator_narrow())
    ids, mask = batch(model)
    found = values(bridge, ["discriminator_out.hook_out"], ids, mask)
    assert found["logits"].shape == ids.shape
    assert torch.equal(found["discriminator_out.hook_out"].squeeze(-1), found["logits"])
    assert not any(name.startswith("unembed") for name in bridge.hook_dict)


# Opened by name.


def tokenizer_of(name: str) -> Any:
    """SentencePiece for ALBERT, WordPiece for the others: the classes that their checkpoints have."""
    import transformers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if name.startswith("ALBERT"):
        # "<pad>" and "<unk>" by the class's own names, and the mark of a space before each word.
        pieces = [*(("<pad>", 0.0), ("<unk>", 0.0)), *((token, 0.0) for token in special[2:])]
        pieces += [(f"\N{LOWER ONE EIGHTH BLOCK}{word}", -2.0) for word in helpers.WORDS] + [("s", -3.0)]
        return transformers.AlbertTokenizer(vocab=pieces)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("\n".join([*special, *helpers.WORDS, "##s"]) + "\n", encoding="utf-8")
        return transformers.BertTokenizerFast(str(path))


def saved(folder: Path, name: str) -> Any:
    """Write a model with a tokenizer as a checkpoint, and return a second copy of the model."""
    tiny_models.MODELS[name]().save_pretrained(folder)
    tokenizer_of(name).save_pretrained(folder)
    return tiny_models.MODELS[name]()


def boot(*args: Any, **options: Any) -> Any:
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_transformers(*args, device="cpu", **options)


@needs_bridge
@every_encoder
def test_a_folder_opens_by_its_name(name: str, tmp_path: Path) -> None:
    """Class, weights and tokenizer come from the checkpoint, and nothing is said on the way."""
    model = saved(tmp_path, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bridge = boot(str(tmp_path)).eval()
    assert type(bridge.original_model) is type(model)
    assert type(bridge.original_model.config) is type(model.config)
    assert_equals_transformers(bridge, model, ELSEWHERE)
    plain = {"add_special_tokens": False}  # TransformerLens makes tokenizers begin with a BOS, and some lose their end
    assert bridge.tokenizer("cat dogs", **plain)["input_ids"] == tokenizer_of(name)("cat dogs", **plain)["input_ids"]


@needs_bridge
@every_encoder
def test_a_loaded_model_opens_under_any_name(name: str) -> None:
    bridge = boot("some/name", hf_model=tiny_models.MODELS[name](), tokenizer=helpers.tiny_tokenizer()).eval()
    assert_equals_transformers(bridge, tiny_models.MODELS[name]())


@needs_bridge
def test_loaders_of_others_are_left_alone() -> None:
    """After a discriminator was opened, ELECTRA's configuration still means to transformers what it did."""
    boot("some/name", hf_model=tiny_models.electra_discriminator(), tokenizer=helpers.tiny_tokenizer())
    from transformers import AutoModelForCausalLM

    config = tiny_models.electra_discriminator().config
    config.is_decoder = True
    assert type(AutoModelForCausalLM.from_config(config)).__name__ == "ElectraForCausalLM"


# Probed.


@needs_bridge
@every_encoder
def test_probe_counts_every_layer_as_the_loops_do(name: str) -> None:
    """Same- and cross-topic sums of every head equal the four-loop oracle on transformers' own attentions."""
    model = tiny_models.MODELS[name]().double()
    bridge = helpers.bridge(tiny_models.MODELS[name]().double())
    generator = np.random.default_rng(0)
    documents = [generator.integers(3, 20, size=length).tolist() for length in (12, 7, 9)]
    report = topic_probes.probe(bridge, documents, LABELS, batch_size=2, progress=False, seed=1)

    frame = report.attention.to_frame()
    assert sorted(frame["layer"].unique()) == list(range(ENCODERS[name]))
    topics = {int(token): topic for token, topic in LABELS.topics_of.items()}
    expected: Any = 0.0
    pairs: Any = 0
    for ids in documents:
        attentions = reference(model, torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long)).attentions
        words = [(token, [at]) for at, token in enumerate(ids)]
        found = [
            [oracles.attention_by_class(head.numpy(), words, topics, lambda q, k: True, ()) for head in layer[0]]
            for layer in attentions
        ]
        expected = expected + np.array(
            [[(one[0]["same_topic"], one[0]["cross_topic"]) for one in row] for row in found]
        )
        pairs = pairs + np.array([found[0][0][1]["same_topic"], found[0][0][1]["cross_topic"]])
    means = (expected / pairs).reshape(-1, 2)
    np.testing.assert_allclose(frame[["same_topic", "cross_topic"]].to_numpy(), means, rtol=1e-9)

    assert report.baseline is not None
    twin = report.baseline.attention.to_frame()
    assert len(twin) == len(frame)
    assert not np.allclose(twin["same_topic"], frame["same_topic"])
    assert report.embedding is not None
    assert report.baseline.embedding is not None


@needs_bridge
@every_encoder
def test_attach_counts_text(name: str) -> None:
    """The model's own tokenizer, a mask, any forward pass."""
    bridge = helpers.bridge(tiny_models.MODELS[name](), helpers.tiny_tokenizer())
    labels = TopicLabels.from_dict({"cat": 0, "dog": 0, "sun": 1, "moon": 1})
    encoded = helpers.tiny_tokenizer()(["cat dog sun moon", "the cat and the moon"], padding=True, return_tensors="pt")
    with topic_probes.attach(bridge, labels) as probe:
        bridge(encoded["input_ids"], attention_mask=encoded["attention_mask"])
    result = probe.result()
    assert result.pair_counts["same_topic"] == 4
    assert result.pair_counts["cross_topic"] == 8 + 2
    assert len(result.to_frame()) == 3 * ENCODERS[name]


@needs_bridge
@every_encoder
def test_probe_embedding_measures_the_word_vectors(name: str) -> None:
    """The result from the bridge is that from the matrix itself."""
    model = tiny_models.MODELS[name]()
    matrix = model.get_input_embeddings().weight.detach().numpy()
    found = topic_probes.probe_embedding(helpers.bridge(tiny_models.MODELS[name]()), LABELS).to_frame()
    expected = topic_probes.probe_embedding(matrix, LABELS).to_frame()
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-12)


# Registered.


def is_ours(architecture: str) -> bool:
    """Whether the installed TransformerLens opens an architecture by our adapter."""
    from transformer_lens.factories.architecture_adapter_factory import ArchitectureAdapterFactory

    adapter = ArchitectureAdapterFactory._adapters[architecture]
    return adapter is getattr(architectures, f"{architecture}Adapter")


@needs_bridge
def test_a_native_adapter_is_never_replaced() -> None:
    """What TransformerLens has of its own before is what it has after."""
    script = """if True:
        from transformer_lens.factories import architecture_adapter_factory as factory
        native = dict(factory.SUPPORTED_ARCHITECTURES)
        from topic_probes import architectures
        mine = architectures.register()
        assert architectures.register() == mine
        for table in (factory.SUPPORTED_ARCHITECTURES, factory.ArchitectureAdapterFactory._adapters):
            assert native.items() <= table.items()
            assert set(architectures.ADAPTERS.values()) <= set(table)
        print(*sorted(set(native) & set(architectures.ADAPTERS.values())), *mine)
    """
    printed = python(script).split()
    assert sorted(printed) == sorted(architectures.ADAPTERS.values())


@needs_bridge
def test_what_somebody_else_registered_stays() -> None:
    script = """if True:
        from transformer_lens.factories.architecture_adapter_factory import ArchitectureAdapterFactory as factory
        factory.discover_entry_points()
        class Other: pass
        factory.register_adapter("ElectraForMaskedLM", Other)
        from topic_probes import architectures
        print("ElectraForMaskedLM" in architectures.register(), factory._adapters["ElectraForMaskedLM"] is Other)
    """
    assert python(script).split() == ["False", "True"]


@needs_bridge
def test_entry_points_name_no_native_architecture() -> None:
    """TransformerLens warns of those, at every start."""
    script = """if True:
        from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
        print(*SUPPORTED_ARCHITECTURES)
    """
    assert not set(python(script).split()) & declared_entry_points()


def test_entry_points_lead_to_adapters() -> None:
    """Each architecture has one, but for the one that some release has an adapter for."""
    assert declared_entry_points() == set(architectures.ADAPTERS.values()) - {"RobertaForMaskedLM"}


def test_importing_the_package_needs_no_transformer_lens() -> None:
    """The names are there; what they stand for is made when it is asked for."""
    script = """if True:
        import sys
        import topic_probes.architectures as architectures
        assert set(architectures.ADAPTERS) <= set(dir(architectures))
        print("transformer_lens" in sys.modules, "torch" in sys.modules)
    """
    assert python(script).split() == ["False", "False"]


@pytest.mark.skipif(helpers.HAS_BRIDGE, reason="transformer-lens 3 and later have bridges")
def test_without_bridges_nothing_is_registered_and_an_adapter_says_why() -> None:
    assert architectures.register() == ()
    with pytest.raises(ImportError, match="needs a transformer-lens with TransformerBridge: pip install"):
        _ = architectures.ElectraForMaskedLMAdapter


def test_an_unknown_adapter_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'BertAdapter'"):
        _ = architectures.BertAdapter


def installed_entry_points() -> dict[str, Any]:
    """Those of the installed distribution, by architecture."""
    group = importlib.metadata.entry_points(group="transformer_lens.architectures")
    return {point.name: point for point in group if point.value.startswith("topic_probes.")}


@needs_bridge
@pytest.mark.skipif(
    not installed_entry_points(), reason="topic-probes is not installed as a distribution with entry points"
)
def test_an_installed_package_needs_no_import_of_ours(tmp_path: Path) -> None:
    """A bridge around a model is built, and a folder opened after it, by a program that has never heard of us."""
    assert set(installed_entry_points()) == declared_entry_points()
    saved(tmp_path, "ELECTRA discriminator")
    script = f"""if True:
        import sys, warnings
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Hooked")
        import torch
        from transformers import AutoModelForPreTraining
        from transformer_lens.model_bridge import TransformerBridge
        from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
        model = AutoModelForPreTraining.from_pretrained({str(tmp_path)!r}, attn_implementation="eager")
        first = build_bridge_from_module(model, "ElectraForPreTraining", hf_config=model.config)
        second = TransformerBridge.boot_transformers({str(tmp_path)!r}, device="cpu")
        print(type(second.original_model).__name__, type(second.adapter).__module__)
    """
    assert python(script, folder=tmp_path).split() == ["ElectraForPreTraining", "topic_probes.architectures._adapter"]


def declared_entry_points() -> set[str]:
    """The names in pyproject.toml, each checked to lead to the adapter of its architecture."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"]["transformer_lens.architectures"]
    for name, value in declared.items():
        module, _, attribute = value.partition(":")
        assert module == architectures.__name__
        assert architectures.ADAPTERS[attribute] == name
    return set(declared)


def python(script: str, folder: Path | None = None) -> str:
    """What a fresh interpreter prints that runs ``script`` without a warning or any other line on stderr."""
    command = [sys.executable, "-W", "error::UserWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder or Path(__file__).parents[2], timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
