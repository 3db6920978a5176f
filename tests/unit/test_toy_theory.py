"""Promises of the optimum from theory: closed forms against least squares, loops, other optimisers and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize

from topic_probes.toy import (
    numerical_value_matrix,
    optimal_attention,
    optimal_embedding_gram,
    optimal_value_matrix,
    population_loss,
)

EXACT = 1e-12
"""Sums of some hundred terms of order 1 in float64."""
SETTINGS = [(10, 10, 1), (10, 10, 2), (6, 4, 3)]
RATES = [(0.15, 0.1, 0.1), (0.3, 0.0, 0.2), (0.5, 0.2, 0.0), (0.2, 0.5, 0.5), (1.0, 0.4, 0.1)]


def brute_force_loss(
    value: np.ndarray, scores: np.ndarray, n_topics: int, words: int, rates: tuple[float, float, float], tau: int, loss
) -> float:
    """The expected loss per masked position by plain loops, from the definition of the documents alone."""
    p_mask, p_keep, p_random = rates
    n_words, total, n_sets = n_topics * words, 0.0, 0
    for chosen in itertools.combinations(range(n_topics), tau):
        inside = [word for word in range(n_words) if word // words in chosen]
        share = [0.0] * (n_words + 1)
        for word in range(n_words):
            if word in inside:
                share[word] += (1 - p_mask + p_mask * p_keep) / len(inside)
            share[word] += p_mask * p_random / n_words
        share[n_words] = p_mask * (1 - p_keep - p_random)

        def output(query: int, share: list[float] = share) -> list[float]:
            weights = [share[key] * math.exp(scores[query][key]) for key in range(n_words + 1)]
            size = sum(weights)
            return [sum(value[i][k] * weights[k] for k in range(n_words + 1)) / size for i in range(n_words)]

        outputs = [output(query) for query in range(n_words + 1)]

        def cost(query: int, truth: int, outputs: list[list[float]] = outputs) -> float:
            out = outputs[query]
            if loss == "squared":
                return sum((value - (word == truth)) ** 2 for word, value in enumerate(out))
            return math.log(sum(math.exp(value) for value in out)) - out[truth]

        for truth in inside:
            expected = (1 - p_keep - p_random) * cost(n_words, truth) + p_keep * cost(truth, truth)
            expected += sum(p_random / n_words * cost(shown, truth) for shown in range(n_words))
            total += expected / len(inside)
        n_sets += 1
    return total / n_sets


# --- the value matrix ---


@pytest.mark.parametrize(("n_topics", "words", "tau"), SETTINGS)
@pytest.mark.parametrize("rates", RATES)
def test_the_closed_form_is_the_least_squares_solution(n_topics, words, tau, rates):
    """By pseudo-inverse over all topic sets, whatever the number of topics of a document."""
    closed = optimal_value_matrix(n_topics, words, *rates).matrix()
    numerical = numerical_value_matrix(n_topics, words, *rates, topics_per_document=tau)
    assert closed.shape == (n_topics * words, n_topics * words + 1)
    np.testing.assert_allclose(closed, numerical, atol=EXACT, rtol=0)


@pytest.mark.parametrize(("n_topics", "words", "tau"), SETTINGS)
def test_the_numerical_oracle_solves_the_documents_written_out_by_loops(n_topics, words, tau):
    """Scipy's least squares, on documents made here, gives the same matrix."""
    c, q, a = 1 - 0.15 * 0.9, 0.15 * 0.1 / (n_topics * words), 0.15 * 0.8
    shown, targets = [], []
    for chosen in itertools.combinations(range(n_topics), tau):
        target = [1 / (tau * words) if word // words in chosen else 0.0 for word in range(n_topics * words)]
        targets.append(target)
        shown.append([c * share + q for share in target] + [a])
    solved = scipy.linalg.lstsq(np.array(shown), np.array(targets))[0].T
    found = numerical_value_matrix(n_topics, words, topics_per_document=tau)
    np.testing.assert_allclose(found, solved, atol=1e-12)


@pytest.mark.parametrize("rates", RATES)
def test_the_gap_is_that_of_the_paper(rates):
    """1 / (v (1 - (1 - p_c) p_m)), whatever the number of topics."""
    p_mask, p_keep, _ = rates
    for n_topics in (2, 7):
        assert optimal_value_matrix(n_topics, 5, *rates).gap == pytest.approx(1 / (5 * (1 - (1 - p_keep) * p_mask)))


def test_the_three_values_in_the_paper_s_letters():
    """Beta and gamma as written with divisions by a, which the code avoids."""
    a, c, q, n = 0.15 * 0.8, 1 - 0.15 * 0.9, 0.15 * 0.1 / 100, 100
    beta = -(1 / c + (1 - a) * q / (a**2 * c)) / (n + (1 - a) ** 2 / a**2)
    optimum = optimal_value_matrix(10, 10)
    assert optimum.cross == pytest.approx(beta, rel=1e-12)
    assert optimum.same == pytest.approx(beta + 1 / (c * 10), rel=1e-12)
    assert optimum.mask == pytest.approx((-q / c - beta * (1 - a)) / a, rel=1e-10)


def test_without_mask_tokens_the_closed_form_has_no_hole():
    """All masked positions show words (a = 0): nothing is divided by zero, and least squares agrees."""
    optimum = optimal_value_matrix(4, 3, 0.4, 0.6, 0.4)
    assert optimum.mask == 0
    np.testing.assert_allclose(optimum.matrix(), numerical_value_matrix(4, 3, 0.4, 0.6, 0.4), atol=EXACT)


def test_the_mask_row_is_zero_and_last():
    optimum = optimal_value_matrix(3, 2)
    full = optimum.matrix(mask_row=True)
    assert full.shape == (7, 7)
    np.testing.assert_array_equal(full[:-1], optimum.matrix())
    assert not full[-1].any()


def test_rows_are_outputs_and_columns_are_inputs():
    """The last column is [MASK] as an input."""
    optimum = optimal_value_matrix(2, 2)
    matrix = optimum.matrix()
    assert set(matrix[:, 4]) == {optimum.mask}
    assert (matrix[0, 1], matrix[0, 2], matrix[0, 0]) == (optimum.same, optimum.cross, optimum.same)
    assert optimum.to_frame().loc[0, "gap"] == optimum.gap


# --- the embedding ---


@pytest.mark.parametrize(("n_topics", "words", "tau"), SETTINGS)
@pytest.mark.parametrize("rates", RATES)
def test_the_optimal_embedding_has_no_excess_loss_and_can_be_built(n_topics, words, tau, rates):
    """Its Gram matrix has no negative eigenvalue and rank T; its words' rows leave no excess."""
    gram = optimal_embedding_gram(n_topics, words, *rates).matrix()
    np.testing.assert_array_equal(gram, gram.T)
    eigenvalues = np.linalg.eigvalsh(gram)
    assert eigenvalues.min() > -EXACT
    assert (eigenvalues > 1e-9).sum() == n_topics
    assert abs(population_loss(gram, n_topics, words, *rates, topics_per_document=tau).excess) < EXACT


def test_no_embedding_without_excess_loss_is_smaller():
    """Scipy minimises |W_E|^2 under the equations of all topic sets, from random starts: none ends below."""
    n_topics, words, width = 3, 2, 3
    rates = (0.5, 0.1, 0.2)
    p_mask, p_keep, p_random = rates
    c, q, a = 1 - p_mask * (1 - p_keep), p_mask * p_random / 6, p_mask * (1 - p_keep - p_random)
    shown = np.array([[c * (w // 2 == t) / 2 + q for w in range(6)] + [a] for t in range(3)])
    targets = np.array([[(w // 2 == t) / 2 for w in range(6)] for t in range(3)])

    def excess(flat: np.ndarray) -> np.ndarray:
        rows = flat.reshape(7, width)
        return (shown @ rows @ rows[:6].T - targets).ravel()

    optimum = np.trace(optimal_embedding_gram(n_topics, words, *rates).matrix())
    generator, ended = np.random.default_rng(0), []
    for _ in range(6):
        # The equations depend on each other, so they are met through a steep penalty, and exactly in its limit.
        start = generator.normal(size=7 * width)
        for weight in (1e2, 1e4, 1e6):
            start = scipy.optimize.least_squares(
                lambda flat, weight=weight: np.concatenate([flat, weight * excess(flat)]), start, xtol=1e-15, ftol=1e-15
            ).x
        assert np.abs(excess(start)).max() < 1e-6
        ended.append(float(start @ start))
    assert min(ended) == pytest.approx(optimum, rel=1e-5)


def test_every_embedding_without_excess_has_the_same_gap_of_topic_means():
    """Moving weight within a topic changes entries, not the loss and not the means."""
    optimum = optimal_embedding_gram(4, 3)
    gram = optimum.matrix()
    generator = np.random.default_rng(0)
    moved = gram.copy()
    for topic in range(4):
        within = slice(3 * topic, 3 * topic + 3)
        factor = generator.normal(size=(3, 3))
        factor -= factor.mean(axis=0)  # columns sum to zero, so no topic sees it
        moved[within, within] += factor @ factor.T
    assert np.abs(moved - gram).max() > 0.5
    assert abs(population_loss(moved, 4, 3, topics_per_document=2).excess) < EXACT
    means = moved[:12, :12].reshape(12, 4, 3).mean(axis=2)
    own = means[np.arange(12), np.arange(12) // 3]
    np.testing.assert_allclose(own[:, None] - means, optimum.gap * (np.arange(4) != np.arange(12)[:, None] // 3))
    assert optimum.gap == pytest.approx(optimal_value_matrix(4, 3).gap)


def test_without_mask_tokens_the_embedding_has_no_hole():
    gram = optimal_embedding_gram(4, 3, 0.4, 0.6, 0.4)
    assert (gram.mask, gram.mask_square) == (0, 0)
    assert abs(population_loss(gram.matrix(), 4, 3, 0.4, 0.6, 0.4).excess) < EXACT


# --- the loss ---


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize("tau", [1, 2])
def test_the_population_loss_is_that_of_plain_loops(loss, tau):
    """For any value matrix and any scores."""
    generator = np.random.default_rng(1)
    value, scores = generator.normal(size=(6, 7)), generator.normal(size=(7, 7))
    rates = (0.3, 0.2, 0.1)
    found = population_loss((value, scores), 3, 2, *rates, topics_per_document=tau, loss=loss)
    assert found.total == pytest.approx(brute_force_loss(value, scores, 3, 2, rates, tau, loss), rel=1e-12)
    uniform = population_loss(value, 3, 2, *rates, topics_per_document=tau, loss=loss)
    expected = brute_force_loss(value, np.zeros((7, 7)), 3, 2, rates, tau, loss)
    assert uniform.total == pytest.approx(expected, rel=1e-12)


def test_the_population_loss_is_the_limit_of_simulated_documents():
    """Long documents of random words and random masks come near it; the value matrix is random."""
    generator = np.random.default_rng(2)
    n_topics, words, n, length = 3, 2, 6, 20_000
    value, scores = generator.normal(size=(n, n + 1)), generator.normal(size=(n + 1, n + 1))
    p_mask, p_keep, p_random = 0.4, 0.2, 0.3
    losses = []
    for _ in range(12):
        chosen = generator.choice(n_topics, 2, replace=False)
        truth = generator.choice(chosen, length) * words + generator.integers(words, size=length)
        masked = generator.random(length) < p_mask
        kind = generator.choice(3, size=length, p=[p_keep, p_random, 1 - p_keep - p_random])
        shown = np.where(masked & (kind == 1), generator.integers(n, size=length), truth)
        shown = np.where(masked & (kind == 2), n, shown)
        weights = np.bincount(shown, minlength=n + 1) * np.exp(scores)
        outputs = (weights / weights.sum(axis=1, keepdims=True)) @ value.T
        rows = outputs[shown[masked]]
        losses.append(((rows - np.eye(n)[truth[masked]]) ** 2).sum(axis=1).mean())
    expected = population_loss((value, scores), n_topics, words, p_mask, p_keep, p_random, topics_per_document=2)
    # Topic sets differ, so the mean over twelve documents is compared within four of its standard errors.
    assert abs(np.mean(losses) - expected.total) < 4 * np.std(losses) / math.sqrt(12) + 0.02


def test_the_irreducible_loss_is_that_of_the_true_distribution():
    optimum = optimal_value_matrix(6, 4).matrix()
    found = population_loss(optimum, 6, 4, topics_per_document=3)
    assert found.irreducible == pytest.approx(1 - 1 / 12)
    assert abs(found.excess) < EXACT
    assert population_loss(1.1 * optimum, 6, 4, topics_per_document=3).excess > 1e-4
    entropy = population_loss(optimum, 6, 4, topics_per_document=3, loss="cross_entropy")
    assert entropy.irreducible == pytest.approx(math.log(12))
    assert entropy.excess > 0


def test_scores_matter_up_to_a_constant_of_each_query():
    generator = np.random.default_rng(3)
    value, scores = generator.normal(size=(6, 7)), generator.normal(size=(7, 7))
    first = population_loss((value, scores), 3, 2).total
    assert population_loss((value, scores + 100 * generator.normal(size=(7, 1))), 3, 2).total == pytest.approx(first)
    assert abs(population_loss((value, scores.T), 3, 2).total - first) > 1e-3


# --- attention ---


@pytest.mark.parametrize(("n_topics", "words", "tau"), [(10, 10, 2), (6, 4, 3), (5, 2, 2)])
def test_the_optimal_attention_prefers_the_own_topic_and_gains_by_it(n_topics, words, tau):
    """Its loss is below that of uniform attention, and that of any neighbour is not."""
    optimum = optimal_attention(n_topics, words, topics_per_document=tau)
    value = optimal_value_matrix(n_topics, words).matrix()

    def total(scores: np.ndarray) -> float:
        return population_loss((value, scores), n_topics, words, topics_per_document=tau).total

    assert optimum.same_topic > 1.5
    assert not optimum.at_bound
    assert optimum.loss.total < optimum.uniform_loss.total - 1e-4
    assert total(optimum.scores()) == pytest.approx(optimum.loss.total, abs=EXACT)
    assert total(np.zeros_like(optimum.scores())) == pytest.approx(optimum.uniform_loss.total, abs=EXACT)
    scores = optimum.scores()
    topics = np.append(np.arange(n_topics * words) // words, -1)
    same = (topics[:, None] == topics) & (topics[:, None] >= 0)
    for step in (-0.05, 0.05):
        assert total(scores + step * same) > optimum.loss.total
        nudged = scores.copy()
        nudged[:, -1] += step
        assert total(nudged) > optimum.loss.total


def test_the_optimal_attention_is_the_best_of_a_grid():
    """All pairs of weights on a grid of logarithms, by plain loops."""
    value = optimal_value_matrix(3, 2).matrix()
    optimum = optimal_attention(3, 2, topics_per_document=2)
    best = math.inf
    for own, mask in itertools.product(np.linspace(0, 4, 9), np.linspace(-1, 1, 5)):
        scores = [[own if q // 2 == k // 2 and 6 not in (q, k) else 0.0 for k in range(6)] + [mask] for q in range(7)]
        best = min(best, brute_force_loss(value, np.array(scores), 3, 2, (0.15, 0.1, 0.1), 2, "squared"))
    assert optimum.loss.total <= best
    assert best - optimum.loss.total < 1e-3


def test_same_word_and_same_topic_are_not_told_apart():
    """Weight may move from the word to the rest of its topic without a change of the loss, as the docstring says."""
    optimum = optimal_attention(5, 4, topics_per_document=2)
    value, scores = optimal_value_matrix(5, 4).matrix(), optimum.scores()
    words = np.arange(20)
    moved = np.exp(scores)
    moved[words, words] += 3 * 0.5
    moved[:20, :20] -= 0.5 * ((words[:, None] // 4 == words // 4) & (words[:, None] != words))
    found = population_loss((value, np.log(moved)), 5, 4, topics_per_document=2).total
    assert found == pytest.approx(optimum.loss.total, abs=EXACT)


def test_documents_of_one_topic_need_no_attention():
    optimum = optimal_attention(4, 3, topics_per_document=1)
    assert (optimum.same_word, optimum.same_topic, optimum.mask) == pytest.approx((1, 1, 1), abs=1e-6)
    assert optimum.to_frame().loc[0, "other_topic"] == 1


# --- wrong calls ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_value_matrix(1, 3), "n_topics must be at least 2"),
        (lambda: optimal_value_matrix(2, 0), "words_per_topic must be at least 1"),
        (lambda: optimal_value_matrix(2, 3, 0.0), "mask_rate must be above 0"),
        (lambda: optimal_value_matrix(2, 3, 1.0, 0.0, 0.1), r"mask_rate \* \(1 - keep_rate\) must be below 1"),
        (lambda: optimal_embedding_gram(2, 3, 0.1, 0.7, 0.7), r"keep_rate \+ random_rate must be at most 1"),
        (
            lambda: numerical_value_matrix(3, 3, topics_per_document=3),
            r"topics_per_document must be below n_topics \(3\)",
        ),
        (
            lambda: numerical_value_matrix(40, 3, topics_per_document=20),
            "at most 5,000 topic sets, got 137,846",
        ),
        (lambda: population_loss(np.zeros((3, 3)), 2, 3), r"model must be a matrix of shape \(6, 7\)"),
        (lambda: population_loss((np.zeros((6, 7)), np.zeros((6, 6))), 2, 3), r"scores must have the shape \(7, 7\)"),
        (lambda: population_loss((np.zeros((6, 7)),) * 3, 2, 3), "got a tuple of 3"),
        (lambda: population_loss(np.full((6, 7), np.nan), 2, 3), "model must hold numbers, got NaN"),
        (lambda: population_loss(np.zeros(7), 2, 3), "model must be a matrix, got an array of shape"),
        (
            lambda: optimal_attention(3, 3, 0.15, 0.0, 0.0, topics_per_document=2),
            "no masked position would show a word",
        ),
        (lambda: optimal_attention(3, 3, topics_per_document=3), "topics_per_document must be below n_topics"),
    ],
)
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
