"""The contest of `kampong.online` as naive loops of NumPy: each member and the pool by its formula, a row at a time."""

import numpy as np

from kampong.online.pooling import TURN
from kampong.online.settings import Settings

S = Settings()
KEEP = 2.0 ** (-1.0 / S.half_life)


def softmax(scores):
    values = np.exp(np.asarray(scores) - np.max(scores))
    return values / values.sum()


def log_softmax(scores):
    scores = np.asarray(scores, dtype=float)
    return scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())


def grown(array, classes):
    """Return lines for more classes, zero at first."""
    return np.concatenate([array, np.zeros((classes - len(array), *array.shape[1:]))])


class Standardiser:
    """All rows are kept: mean and deviation with the new row among them, older rows with less weight."""

    def __init__(self):
        self.rows, self.weights = [], []

    def point(self, x):
        rows = np.array([*self.rows, x])
        weights = np.array([*self.weights, 1.0]) * KEEP ** np.arange(len(rows))[::-1]
        weights /= weights.sum()
        mean = weights @ rows
        variance = weights @ np.square(rows - mean)
        active = variance > 1e-24 * np.square(mean)
        return np.where(active, (x - mean) / np.sqrt(np.where(active, variance, 1.0)), 0.0), max(active.sum(), 1)

    def learn(self, x, weight):
        self.rows.append(x)
        self.weights.append(weight)


class Linear:
    """Softmax regression on features; step length by the rate and the length of the features."""

    def __init__(self, rate):
        self.rate, self.W = rate, None

    def scores(self, f, known):
        self.W = np.zeros((0, 1 + len(f))) if self.W is None else self.W
        return self.W[:known] @ np.append(1.0, f)

    def learn(self, f, code, weight, length=None):
        self.W = grown(self.W, max(len(self.W), code + 1))
        row = np.append(1.0, f)
        length = row @ row if length is None else length
        gradient = softmax(self.W @ row)
        gradient[code] -= 1.0
        self.W -= min(self.rate * weight, max(self.rate, length)) / length * np.outer(gradient, row)


class Members:
    """The answers of all narrow members, in the order of the contest."""

    def __init__(self, directions):
        self.directions, self.K = directions, 0
        self.counts, self.chain, self.last = np.zeros(0), np.zeros((0, 0)), None
        self.softmax = [Linear(rate) for rate in S.learning_rates]
        self.products = [Linear(rate) for rate in S.learning_rates]
        self.fourier = [Linear(S.curved_rate) for _ in range(S.widths)]
        self.aggressive = [None] * len(S.strengths)
        self.clock, self.memory, self.tiles = 0, [], {}

    def features(self, z, active):
        pairs = np.concatenate([[z[j], *(z[j] * z[: j + 1])] for j in range(len(z))])
        angles = z @ self.directions / np.sqrt(active)
        waves = [
            np.concatenate([np.cos(2**w * angles), np.sin(2**w * angles)]) / np.sqrt(len(angles))
            for w in range(S.widths)
        ]
        part = 1.0 / (1.0 + np.exp(-1.702 * z))
        coarse, fine = (part * S.cuts).astype(int), (part * S.cuts**2).astype(int)
        used = np.flatnonzero(z)
        keys = [(j, m, fine[j] if m == j else (coarse[j], coarse[m])) for j in used for m in used if m <= j]
        return pairs, waves, keys

    def answers(self, z, active):
        K, row = self.K, np.append(1.0, z)
        pairs, waves, keys = self.features(z, active)
        found = {"frequencies": [np.log(self.counts + 1.0 / K)]}
        found["label_chain"] = [np.zeros(K) if self.last is None else np.log(self.chain[self.last] + 1.0 / K)]
        found["softmax"] = [one.scores(z, K) for one in self.softmax]
        found["passive_aggressive"] = [W[:K] @ row for W in self.aggressive]
        found["discriminant"] = [self.discriminant(z)]
        found["products"] = [one.scores(pairs, K) for one in self.products]
        found["tiles"] = [sum((self.tiles.get(key, np.zeros(K)) for key in keys), np.zeros(K))]
        found["fourier"] = [one.scores(wave, K) for one, wave in zip(self.fourier, waves, strict=True)]
        found["neighbours"] = [self.neighbours(z)]
        return found

    def discriminant(self, z):
        """Scores from the rows themselves: means, and the within-class scatter with one row of variance 1 before."""
        Z, codes, weights = (np.array(values) for values in zip(*self.memory, strict=True))
        scatter, scores, means, shares = np.eye(len(z)), [], [], []
        for k in range(self.K):
            mine = codes == k
            means.append(weights[mine] @ Z[mine] / weights[mine].sum())
            shares.append(weights[mine].sum())
            apart = Z[mine] - means[-1]
            scatter += (weights[mine, None] * apart).T @ apart
        inverse = np.linalg.inv(scatter / (1.0 + sum(shares)))
        for mean, share in zip(means, shares, strict=True):
            scores.append(np.log(share) + mean @ inverse @ (z - mean / 2))
        return np.array(scores)

    def neighbours(self, z):
        held = self.memory[-S.window :]
        distances = np.array([np.square(z - point).sum() for point, _, _ in held])
        order = np.argsort(distances, kind="stable")[: S.neighbours + 1]
        votes = np.full(self.K, 1.0 / self.K)
        reach = distances[order[-1]]
        for place in order[:-1]:
            votes[held[place][1]] += 1.0 - distances[place] / reach if reach > 0 else 1.0
        return np.log(votes)

    def learn(self, z, active, code, weight):
        before, row = self.K, np.append(1.0, z)
        pairs, waves, keys = self.features(z, active)
        if self.clock == 0:
            self.aggressive = [np.zeros((0, len(row))) for _ in S.strengths]
            for one, f in zip(
                [*self.softmax, *self.products, *self.fourier],
                [z] * len(self.softmax) + [pairs] * len(self.products) + waves,
                strict=True,
            ):
                one.scores(f, 0)
        K = self.K = max(before, code + 1)
        self.counts, self.chain = grown(self.counts, K), grown(np.pad(self.chain, ((0, 0), (0, K - before))), K)
        self.counts *= KEEP
        self.counts[code] += weight
        if self.last is not None:
            self.chain[self.last] *= KEEP
            self.chain[self.last, code] += weight
        self.last = code
        for one, f, length in (
            [(a, z, None) for a in self.softmax]
            + [(a, pairs, None) for a in self.products]
            + [(a, f, 2.0) for a, f in zip(self.fourier, waves, strict=True)]
        ):
            one.learn(f, code, weight, length)
        for number, strength in enumerate(S.strengths):
            W = self.aggressive[number] = grown(self.aggressive[number], K)
            scores = W @ row
            others = [k for k in range(before) if k != code]
            if others:
                other = max(others, key=lambda k: scores[k])
                loss = max(0.0, 1.0 - scores[code] + scores[other])
                pace = min(strength * weight, loss / (2.0 * row @ row))
                W[code] += pace * row
                W[other] -= pace * row
        tables = max(len(keys), 1)
        empty = dict.fromkeys(keys, np.zeros(0))
        self.tiles = {key: grown(value, K) for key, value in (empty | self.tiles).items()}
        gradient = softmax(sum((self.tiles[key] for key in keys), np.zeros(K)))
        gradient[code] -= 1.0
        for key in keys:
            self.tiles[key] = (
                self.tiles[key] - min(S.curved_rate * weight, max(S.curved_rate, tables)) / tables * gradient
            )
        self.memory.append((z, code, weight))
        self.clock += 1


class Pool:
    """All rows are kept: shares are sums over all rows after which the best answer may have changed last."""

    def __init__(self, size):
        self.chances, self.losses = [], np.zeros(size)
        self.hessian = S.ridge * np.eye(1 + size)
        self.weights, self.clock = np.eye(1, 1 + size)[0], 0

    def shares(self):
        """Return the chance that each answer is the best now, if the best may change before each row.

        The last change lies before row t = 0 … n, all answers equally likely since; Bayes' rule does the rest.
        """
        size = len(self.losses)
        joint = [np.full(size, 1.0 / size)]  # a line for each row that may have come first after the last change
        for chances in self.chances:
            joint = [line * chances for line in joint]
            total = np.sum(joint)
            joint = [KEEP * line / total for line in joint] + [np.full(size, (1.0 - KEEP) / size)]
        return np.sum(joint, axis=0)

    def answer(self, logs):
        mean = np.log(self.shares() @ np.exp(logs))
        self.inputs = np.vstack([mean, logs])
        return log_softmax(self.weights @ self.inputs)

    def learn(self, code):
        p = softmax(self.weights @ self.inputs)
        gradient = self.inputs @ p - self.inputs[:, code]
        self.chances.append(np.exp(self.inputs[1:, code]))
        self.losses = KEEP * self.losses - self.inputs[1:, code]
        size = len(self.weights)
        self.hessian = KEEP * self.hessian + np.outer(gradient, gradient)
        self.weights = self.weights - np.linalg.solve(self.hessian, gradient)
        if self.clock % TURN == 0:
            place, ridge = self.clock // TURN % size, S.ridge * (1.0 - KEEP ** (TURN * size))
            self.hessian[place, place] += ridge
            error = (1.0 if place == 0 else 0.0) - self.weights[place]
            self.weights = self.weights + error * ridge * np.linalg.inv(self.hessian)[place]
        self.clock += 1


def contest(X, codes, weights, directions, in_order):
    """Return for each row: known classes, scores of every answer by member, log-probabilities of the contest."""
    columns, members = Standardiser(), Members(directions)
    pool, out = None, []
    for x, code, weight in zip(X, codes, weights, strict=True):
        z, active = columns.point(x)
        answers, answer = {}, None
        if members.K:
            answers = {k: v for k, v in members.answers(z, active).items() if in_order or k != "label_chain"}
            flat = np.array([log_softmax(one) for scores in answers.values() for one in scores])
            pool = pool or Pool(len(flat))
            answer = pool.answer(np.maximum(flat, np.log(S.least_chance)))
            if code < members.K and weight > 0:
                pool.learn(code)
        out.append((members.K, answers, answer))
        if weight > 0:
            columns.learn(x, weight)
            members.learn(z, active, code, weight)
    return out, pool, members
