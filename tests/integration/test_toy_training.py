"""Training a toy model: what it learns, what it leaves alone, and how it goes on after an interruption."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import helpers
from topic_probes import CorpusError, TopicLabels, attach, corpora, probe, probe_embedding
from topic_probes.toy import TopicTransformer, ToyRun, train

TOPICS, WORDS = 4, 5
N_WORDS = TOPICS * WORDS
LABELS = {word: word // WORDS for word in range(N_WORDS)}


def corpus(n_documents: int = 400, *, topics: int = 1, lengths: tuple[int, int] = (20, 40), seed: int = 0) -> Any:
    return corpora.lda(TOPICS, WORDS, n_documents=n_documents, topics_per_document=topics, lengths=lengths, seed=seed)


def run(model: Any = None, documents: Any = None, **options: Any) -> ToyRun:
    model = TopicTransformer(N_WORDS) if model is None else model
    documents = corpus() if documents is None else documents
    return train(model, documents, **{"steps": 12, "batch_size": 32, "record_every": 4, "progress": False, **options})


def same_weights(one: Any, other: Any) -> bool:
    pairs = zip(one.named_parameters(), other.named_parameters(), strict=True)
    return all(torch.equal(a, b) for (_, a), (_, b) in pairs)


OUTCOMES = [
    # model, options of training, column of the history, how large it must become
    ({"embedding": "trained", "value": "identity", "attention": "uniform"}, {}, "embedding_contrast", 1.0),
    ({"attention": "uniform"}, {}, "value_contrast", 1.0),
    (
        {"embedding": "trained", "value": "identity", "attention": "uniform"},
        {"loss": "squared"},
        "value_contrast",
        0.15,
    ),
    ({"attention": "uniform"}, {"loss": "squared"}, "value_contrast", 0.15),
    ({"attention": "uniform"}, {"optimizer": "sgd"}, "value_contrast", 1.0),
    ({"attention": "uniform"}, {"optimizer": "sgd", "loss": "squared"}, "value_contrast", 0.15),
]


@pytest.mark.parametrize(("model", "options", "column", "least"), OUTCOMES)
def test_topics_are_learned(model: dict[str, Any], options: dict[str, Any], column: str, least: float) -> None:
    """P1's outcomes 1, 2 and 7: the embedding alone, and the value matrix alone, become blocks, under either loss."""
    found = run(TopicTransformer(N_WORDS, **model), steps=150, **options)
    history = found.history
    assert abs(history[column].iloc[0]) < 0.02
    assert history[column].iloc[-1] > least
    assert history["loss"].iloc[-1] < history["loss"].iloc[0]


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_attention_learns_topics_with_the_value_matrix_frozen(loss: Any) -> None:
    """P1's outcome 3: same-topic attention becomes larger than cross-topic attention, and was equal before."""
    model = TopicTransformer(N_WORDS, value="block", topics=LABELS)
    found = run(model, corpus(topics=2), steps=150, loss=loss)
    first, last = found.history.iloc[0], found.history.iloc[-1]
    assert first["same_topic"] == pytest.approx(first["cross_topic"], abs=0.01)
    assert last["same_topic"] > 1.2 * last["cross_topic"]
    assert first["norm_W_V"] == last["norm_W_V"]


@pytest.mark.parametrize(("mask_rate", "keep_rate"), [(0.15, 0.1), (0.3, 0.2)])
def test_the_value_matrix_comes_to_the_closed_form(mask_rate: float, keep_rate: float) -> None:
    """Squared loss, long documents: the gap between the blocks is 1 / (v (1 - (1 - p_c) p_m)) within 5 %."""
    documents = corpus(400, topics=2, lengths=(1000, 1000))
    found = run(
        TopicTransformer(N_WORDS, attention="uniform", init_scale=0.001),
        documents,
        loss="squared",
        steps=200,
        batch_size=64,
        mask_rate=mask_rate,
        keep_rate=keep_rate,
    )
    gap = 1 / (WORDS * (1 - (1 - keep_rate) * mask_rate))
    assert found.history["value_contrast"].iloc[-1] == pytest.approx(gap, rel=0.05)


@pytest.mark.parametrize("attention", ["trained", "uniform"])
@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_the_quick_way_has_the_loss_curve_of_the_straightforward_one(loss: Any, attention: Any) -> None:
    """The same documents, masks and losses, step by step, to rounding (in float64)."""
    curves = []
    for fast in (True, False):
        model = TopicTransformer(N_WORDS, attention=attention, init_scale=0.1).double()
        curves.append(run(model, loss=loss, fast=fast, record_every=1).history)
    for column in ("loss", "training_loss", "norm_W_V", "norm_W_Q", "same_topic", "value_contrast"):
        np.testing.assert_allclose(curves[0][column], curves[1][column], rtol=1e-6, atol=1e-12)
    assert curves[0]["loss"].iloc[-1] < curves[0]["loss"].iloc[0]


def test_the_history_has_a_row_for_each_recorded_step() -> None:
    """The first and the last step are in it, and the columns have their names."""
    found = run(steps=10, record_every=4)
    assert found.history["step"].tolist() == [0, 4, 8, 10]
    assert list(found.history.columns) == [
        *("step", "loss", "training_loss", "norm_W_E", "norm_W_V", "norm_W_Q", "norm_W_K"),
        *("same_topic", "cross_topic", "embedding_contrast", "value_contrast"),
    ]
    assert found.history["training_loss"].isna().tolist() == [True, False, False, False]
    assert set(found.stages().dropna().index) == {"W_V", "W_Q", "W_K"}
    assert not found.stopped_early


def test_masks_are_fresh_at_every_step() -> None:
    """One document again and again, by a model that hardly moves: only the masks can change its loss."""
    found = run(TopicTransformer(N_WORDS, init_scale=1.0), [[*range(N_WORDS)] * 5], learning_rate=1e-12, record_every=1)
    assert found.history["training_loss"].dropna().nunique() == 12
    assert found.history["loss"].max() - found.history["loss"].min() < 1e-5


def test_a_seed_decides_a_run() -> None:
    """The same seed gives the same weights bit for bit; another one, or another model seed, does not."""
    first = run(seed=1)
    assert same_weights(first.model, run(seed=1).model)
    assert not same_weights(first.model, run(seed=2).model)
    assert not same_weights(first.model, run(TopicTransformer(N_WORDS, seed=1), seed=1).model)


@pytest.mark.parametrize("options", [{}, {"optimizer": "sgd", "momentum": 0.5}, {"fast": False, "early_stop": 50}])
def test_an_interrupted_run_goes_on_bit_for_bit(options: dict[str, Any], tmp_path: Path) -> None:
    """Weights and history are those of the run that was not interrupted."""
    whole = run(**options)

    def interrupt(model: Any, step: int) -> None:
        if step == 8:
            raise KeyboardInterrupt

    folder = tmp_path / "checkpoint"
    model = TopicTransformer(N_WORDS)
    with pytest.raises(KeyboardInterrupt):
        run(model, checkpoint=folder, on_record=interrupt, **options)
    assert not model.training
    assert not same_weights(model, whole.model)
    fresh = TopicTransformer(N_WORDS)
    again = run(fresh, checkpoint=folder, resume=True, **options)
    assert same_weights(again.model, whole.model)
    assert again.history.equals(whole.history)
    # Nothing is left to do, and a longer run goes on from there.
    assert run(TopicTransformer(N_WORDS), checkpoint=folder, resume=True, **options).history.equals(whole.history)
    longer = run(TopicTransformer(N_WORDS), checkpoint=folder, resume=True, steps=20, **options)
    assert same_weights(longer.model, run(steps=20, **options).model)


def test_a_checkpoint_is_not_mixed_with_another_run(tmp_path: Path) -> None:
    """What a run was begun with is compared, and an earlier checkpoint is not overwritten unasked."""
    folder = tmp_path / "checkpoint"
    run(checkpoint=folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".safetensors"]
    with pytest.raises(FileExistsError, match="pass resume=True"):
        run(checkpoint=folder)
    model = TopicTransformer(N_WORDS)
    before = model.W_V.detach().clone()
    for options, name in [
        ({"seed": 1}, "seed"),
        ({"loss": "squared"}, "loss"),
        ({"documents": corpus(seed=1)}, "documents"),
        ({"steps": 8}, "steps must be at least the 12"),
    ]:
        with pytest.raises(ValueError, match=name):
            run(model, checkpoint=folder, resume=True, **options)
    with pytest.raises(ValueError, match="model="):
        run(TopicTransformer(N_WORDS, init_scale=0.5), checkpoint=folder, resume=True)
    assert torch.equal(model.W_V, before)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    with pytest.raises(FileExistsError, match="choose another folder"):
        run(checkpoint=tmp_path / "notes")
    assert (tmp_path / "notes" / "mine.txt").read_text() == "keep"


def test_training_leaves_the_rest_of_torch_alone() -> None:
    """The global generator and the grad mode come back as they were, and gradients of the caller stay."""
    model = TopicTransformer(N_WORDS)
    kept = torch.ones_like(model.W_V)
    model.W_V.grad = kept
    torch.manual_seed(3)
    state = torch.get_rng_state()
    with torch.no_grad():
        run(model)
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    assert model.W_V.grad is kept
    assert not model.training
    assert not model.W_E.requires_grad


def test_a_probe_may_attach_at_every_row_of_the_history() -> None:
    """The model is in evaluation mode there; the probe's numbers are those of the history, and become columns."""
    documents = corpus(60)
    labels = TopicLabels.from_dict(documents.topics_of)

    def measure(model: Any, step: int) -> dict[str, float]:
        report = probe(model, documents, labels, baseline=None, progress=False)
        frame = report.attention.to_frame().iloc[0]
        return {"probed_same": frame["same_topic"], "probed_cross": frame["cross_topic"], "number": step}

    found = run(TopicTransformer(N_WORDS, init_scale=0.5), documents, on_record=measure)
    history = found.history
    np.testing.assert_allclose(history["probed_same"], history["same_topic"], rtol=1e-5)
    np.testing.assert_allclose(history["probed_cross"], history["cross_topic"], rtol=1e-5)
    assert history["number"].tolist() == history["step"].tolist()
    assert abs(history["same_topic"].iloc[-1] - 1) > 1e-3


def test_every_probe_takes_a_toy_model() -> None:
    """Attaching and probing embeddings work on it, and an untrained twin shows no difference (P1's outcome 6)."""
    documents = corpus(60, topics=2)
    labels = TopicLabels.from_dict(LABELS)
    model = run(TopicTransformer(N_WORDS, embedding="trained"), steps=60).model
    with attach(model, labels) as probed:
        model(torch.tensor([[0, 1, 7, 8], [2, 3, 9, 0]]), attention_mask=torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]))
    assert sum(probed.result().pair_counts.values()) == 16 + 9
    report = probe(model, documents, labels, progress=False)
    assert report.baseline is not None
    untrained = report.baseline.attention.to_frame().iloc[0]
    assert untrained["ratio"] == pytest.approx(1, abs=0.01)
    dots = probe_embedding(model, labels).to_frame().query("measure == 'dot'").set_index("pair_class")["mean"]
    assert dots["same_topic"] > dots["cross_topic"]


def test_early_stop_ends_a_run_that_learns_nothing_more() -> None:
    """It ends after as many rows as asked for without a fall, and says so."""
    found = run(learning_rate=1e-12, steps=400, record_every=2, early_stop=3)
    assert found.stopped_early
    assert found.history["step"].tolist() == [0, 2, 4, 6]
    assert not run(early_stop=100).stopped_early


def test_a_held_out_corpus_is_what_is_measured() -> None:
    """Its loss at the start is another one, and training does not see it."""
    held_out = corpus(50, seed=9)
    found, plain = run(evaluation=held_out), run()
    assert found.history["loss"].iloc[0] != plain.history["loss"].iloc[0]
    assert same_weights(found.model, plain.model)


def test_labels_may_be_given_or_come_with_the_corpus() -> None:
    """A list of lists has none of its own: without labels contrasts are unknown."""
    rows = [list(document.token_ids) for document in corpus(50)]
    assert run(documents=rows).history["value_contrast"].isna().all()
    for labels in (LABELS, TopicLabels.from_dict(LABELS), list(LABELS.values())):
        assert run(documents=rows, labels=labels).history["value_contrast"].notna().all()


@pytest.mark.parametrize("options", [{}, {"value": "block", "topics": LABELS}, {"embedding": "trained", "d_model": 6}])
def test_a_run_can_be_saved_and_loaded(options: dict[str, Any], tmp_path: Path) -> None:
    """Model, history, options and stages come back."""
    found = run(TopicTransformer(N_WORDS, **options).double(), steps=4)
    found.save(tmp_path / "run")
    found.save(tmp_path / "run")
    again = ToyRun.load(tmp_path / "run")
    tokens = torch.tensor([[0, 1, N_WORDS]])
    assert torch.equal(again.model(tokens), found.model(tokens))
    assert again.model.W_V.requires_grad == found.model.W_V.requires_grad
    assert again.history.equals(found.history)
    assert again.options == found.options
    assert again.stages().equals(found.stages())
    (tmp_path / "run" / "arrays.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="damaged"):
        ToyRun.load(tmp_path / "run")


KINDS = ["HookedTransformer", "both ways", "native bridge", "HookedEncoder"]


def other_model(kind: str) -> Any:
    if kind in ("HookedTransformer", "both ways", "HookedEncoder") and not helpers.HAS_HOOKED:
        pytest.skip("this transformer-lens has no Hooked classes")
    if kind == "native bridge" and not helpers.HAS_BRIDGE:
        pytest.skip("this transformer-lens has no bridge")
    if kind == "both ways":
        return helpers.hooked_transformer(attention_dir="bidirectional")
    with torch.random.fork_rng():  # the head that an encoder here does not use is drawn from the global generator
        torch.manual_seed(0)
        return helpers.build(kind, dtype=torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_other_models_are_trained_through_their_forward(kind: str) -> None:
    """Residual, layer norm, MLP, heads and layers: the loss falls, and norms are recorded."""
    model = other_model(kind)
    before = model.W_E.detach().clone()
    found = run(model, corpus(lengths=(10, 12)), steps=40, batch_size=16, learning_rate=0.003, record_every=20)
    history = found.history
    assert history["loss"].iloc[-1] < 0.95 * history["loss"].iloc[0]
    assert not model.training
    assert not torch.equal(model.W_E, before)
    assert history["norm_W_E"].iloc[-1] == pytest.approx(float(model.W_E.detach().norm()), rel=1e-5)
    assert history["norm_W_Q"].notna().all()
    assert history["embedding_contrast"].notna().all()
    assert history["same_topic"].notna().all() == (kind in ("both ways", "HookedEncoder"))


@pytest.mark.parametrize("kind", KINDS)
def test_other_models_resume_bit_for_bit(kind: str, tmp_path: Path) -> None:
    """Their parameters and the optimiser's state are in the checkpoint, and a saved run fills a model again."""
    options = {"documents": corpus(lengths=(10, 12)), "batch_size": 8, "record_every": 2, "learning_rate": 0.003}
    whole = run(other_model(kind), steps=4, **options)
    run(other_model(kind), steps=2, checkpoint=tmp_path / "c", **options)
    again = run(other_model(kind), steps=4, checkpoint=tmp_path / "c", resume=True, **options)
    assert same_weights(again.model, whole.model)
    whole.save(tmp_path / "run")
    with pytest.raises(ValueError, match="pass one by model="):
        ToyRun.load(tmp_path / "run")
    blank = other_model(kind)
    assert not same_weights(blank, whole.model)
    assert same_weights(ToyRun.load(tmp_path / "run", model=blank).model, whole.model)


def test_a_model_that_does_not_heed_the_mask_never_sees_a_pad() -> None:
    """The loss of a bidirectional HookedTransformer over rows of many lengths is that of each row alone."""
    from topic_probes.toy._bags import make_loss
    from topic_probes.toy._documents import read_documents
    from topic_probes.toy._masking import mask_documents
    from topic_probes.toy._masking_rates import MaskingRates

    model = other_model("both ways")
    bag = read_documents(corpus(12, lengths=(3, 30)), N_WORDS)
    batch = mask_documents(bag, MaskingRates(), N_WORDS, np.random.default_rng(0))
    found = make_loss(model, "cross_entropy", N_WORDS, fast=True)(batch)
    terms = []
    for at, target in zip(batch.masked, batch.targets, strict=True):
        number = batch.shown.document[at]
        start = batch.shown.starts[number]
        row = torch.from_numpy(batch.shown.tokens[start : start + batch.shown.lengths[number]])[None]
        logits = model(row)[0, at - start, :N_WORDS].detach()
        terms.append(float(torch.logsumexp(logits, 0) - logits[target]))
    assert found.item() == pytest.approx(np.mean(terms), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"record_every": 0}, "record_every must be at least 1"),
        ({"early_stop": 0}, "early_stop must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be above 0"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"momentum": 0.5}, "momentum is of optimizer"),
        ({"mask_rate": 0.0}, "mask_rate must be above 0"),
        ({"keep_rate": 0.6, "random_rate": 0.6}, "keep_rate"),
        ({"resume": True}, "resume=True needs the folder"),
        ({"n_words": 7}, "n_words must be the model's own, 20"),
        ({"labels": [0]}, "one entry for each of the 20 words"),
        ({"model": TopicTransformer(4)}, "has 20 words, and the model 4"),
        ({"model": TopicTransformer(N_WORDS, value="identity", attention="uniform")}, "nothing to train"),
        ({"on_record": lambda model, step: {"loss": 1.0}}, r"columns that a history has already, got \['loss'\]"),
    ],
)
def test_a_wrong_call_is_refused_with_a_sentence(options: dict[str, Any], sentence: str) -> None:
    """The sentence names the argument and the rule."""
    with pytest.raises((ValueError, CorpusError), match=sentence):
        run(**options)


def test_a_rate_that_is_too_large_is_named() -> None:
    """A loss that is no number ends the run, and the model is in evaluation mode all the same."""
    model = TopicTransformer(N_WORDS)
    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        run(model, optimizer="sgd", loss="squared", learning_rate=1e30, steps=50)
    assert not model.training


def test_an_option_that_is_not_one_of_those_listed_gets_a_sentence(repository: Path) -> None:
    """In a process of its own, without the suite's checker of annotations."""
    calls = {
        "TopicTransformer(5, embedding='learned')": "embedding must be one of 'one_hot', 'trained', got 'learned'",
        "TopicTransformer(5, value='none')": "value must be one of 'trained', 'identity', 'block', got 'none'",
        "TopicTransformer(5, attention='none')": "attention must be one of 'trained', 'uniform', got 'none'",
        "train(model, [[0]], loss='l2')": "loss must be one of 'cross_entropy', 'squared', got 'l2'",
        "train(model, [[0]], optimizer='adam')": "optimizer must be one of 'adamw', 'sgd', got 'adam'",
        "train(model, [[0]], learning_rate='fast')": "learning_rate must be a number, got 'fast'",
        "train(3, [[0]])": "model must be a TopicTransformer or a TransformerLens model, got a int",
        "train(torch.nn.Linear(2, 2), [[0]])": "model must have a vocabulary (cfg.d_vocab), got Linear without",
        "to_transformer_lens(3)": "model must be a TopicTransformer, got a int",
    }
    script = (
        "import json, torch, warnings; warnings.simplefilter('ignore')\n"
        "from topic_probes.toy import TopicTransformer, to_transformer_lens, train\n"
        f"model, answers = TopicTransformer(5), {{}}\nfor call in {list(calls)!r}:\n"
        "    try:\n        eval(call)\n"
        "    except (TypeError, ValueError) as error:\n        answers[call] = str(error)\n"
        "print('\\n' + json.dumps(answers))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    answers = json.loads(finished.stdout.splitlines()[-1])
    for call, sentence in calls.items():
        assert answers[call].startswith(sentence), (call, answers[call])
