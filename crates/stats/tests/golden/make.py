#!/usr/bin/env python3
"""Writes golden.json beside it: what scipy, numpy, statsmodels, diptest and Apache Otava make of the same data.

See requirements.txt for their versions. Where no library has a figure it is computed here by its definition, without a
short cut.
"""

import json
import math
from itertools import combinations, product
from pathlib import Path

import numpy as np
from diptest import dipstat, diptest
from otava import analysis
from scipy import stats
from statsmodels.stats.multitest import multipletests

HERE = Path(__file__).resolve().parent
random = np.random.default_rng(20)


def rounded(values, digits=6):
    """Values that JSON carries exactly, none of them twice."""
    values = [round(float(value), digits) for value in values]
    assert len(set(values)) == len(values)
    return values


def pairs_of_two(reference, result):
    return sorted(y - x for x in reference for y in result)


def pairs_of_one(values):
    return sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])


def p_of_two(reference, result, bound, alternative):
    method = "exact" if max(len(reference), len(result)) <= 50 else "asymptotic"
    moved = [value - bound for value in result]
    return float(stats.mannwhitneyu(moved, reference, alternative=alternative, method=method).pvalue)


def p_of_one(values, bound, alternative):
    method = {"method": "exact"} if len(values) <= 50 else {"method": "asymptotic", "correction": True}
    return float(stats.wilcoxon([value - bound for value in values], alternative=alternative, **method).pvalue)


def interval(pairs, p_at, alpha):
    """By inverting the test: from the first bound to the last that it does not reject, of those between two pairs."""
    ends = []
    for ordered, alternative in ((pairs, "greater"), (pairs[::-1], "less")):
        outside = ordered[0] - (ordered[-1] - ordered[0])
        if p_at(outside, alternative) > alpha / 2:
            return None
        low, high = 0, len(ordered)
        while low < high:
            middle = (low + high) // 2
            before = ordered[middle - 1] if middle else outside
            if p_at((before + ordered[middle]) / 2, alternative) > alpha / 2:
                high = middle
            else:
                low = middle + 1
        ends.append(ordered[low - 1])
    return ends


def shift_case(pairs, p_at):
    bounds = [float(np.quantile(pairs, q)) + 1.23e-7 for q in (0.02, 0.1, 0.4, 0.97)]
    return {
        "estimate": float(np.median(pairs)),
        "intervals": [[alpha, interval(pairs, p_at, alpha)] for alpha in (0.3, 0.05, 0.01, 0.0004)],
        "p": [[bound] + [p_at(bound, kind) for kind in ("greater", "less", "two-sided")] for bound in bounds],
    }


def shifts():
    two, one = [], []
    for n, m in ((3, 3), (3, 5), (4, 4), (8, 8), (10, 10), (12, 7), (20, 20), (33, 25), (50, 50), (51, 20), (60, 70)):
        reference, result = rounded(random.normal(5, 1, n)), rounded(random.normal(5.4, 1, m))
        case = shift_case(pairs_of_two(reference, result), lambda b, kind: p_of_two(reference, result, b, kind))
        two.append({"reference": reference, "result": result} | case)
    for n in (4, 5, 6, 7, 10, 15, 25, 50, 51, 80):
        values = rounded(random.normal(0.3, 1, n))
        one.append({"values": values} | shift_case(pairs_of_one(values), lambda b, kind: p_of_one(values, b, kind)))
    return {"two": two, "one": one}


def ties():
    """The exact permutation p-value, one-sided against 0, of data with equal values: ours must not be smaller."""
    cases = []
    for n in (5, 6, 7):
        for _ in range(4):
            reference, result = random.integers(0, 4, n).tolist(), random.integers(1, 5, n).tolist()

            def score(chosen, pool):
                rest = [pool[i] for i in range(len(pool)) if i not in chosen]
                return sum((pool[i] > x) + (pool[i] == x) / 2 for i in chosen for x in rest)

            pool = reference + result
            seen = score(set(range(n, 2 * n)), pool)
            scores = [score(set(chosen), pool) for chosen in combinations(range(2 * n), n)]
            unpaired = sum(value >= seen for value in scores) / len(scores)
            differences = [y - x for x, y in zip(reference, result)]
            ranks = stats.rankdata(np.abs(differences))

            def signed(signs):
                return sum(rank * (difference != 0) * (sign > 0) for rank, difference, sign in zip(ranks, differences, signs))

            sums = [signed(signs) for signs in product((-1, 1), repeat=n)]
            paired = sum(value >= signed(np.sign(differences)) for value in sums) / len(sums)
            cases.append({"reference": reference, "result": result, "unpaired": unpaired, "paired": paired})
    return cases


def binomial():
    tails = []
    for n, p in ((1, 0.3), (10, 0.5), (100, 0.05), (1000, 0.001), (29956, 0.9999), (10**6, 0.5), (10**6, 0.99)):
        for z in (-6, -2.5, -0.3, 0, 0.4, 3, 7):
            k = min(max(round(n * p + z * math.sqrt(n * p * (1 - p))), 0), n)
            tails.append([k, n, p, float(stats.binom.cdf(k, n, p)), float(stats.binom.sf(k - 1, n, p))])
    rates = []
    for events, n in ((0, 1), (1, 1), (0, 10000), (1, 10000), (3, 10), (50, 100), (999, 1000), (12345, 10**6)):
        for alpha in (0.05, 0.01):
            # Of the beta distribution, as binomtest's exact interval is off by 1e-8 for rare events.
            lower = float(stats.beta.ppf(alpha / 2, events, n - events + 1)) if events else 0.0
            upper = [float(stats.beta.ppf(1 - p, events + 1, n - events)) if events < n else 1.0 for p in (alpha / 2, alpha)]
            exact = stats.binomtest(events, n).proportion_ci(1 - alpha, method="exact")
            assert np.allclose([exact.low, exact.high], [lower, upper[0]], rtol=1e-7)
            rates.append([events, n, alpha, lower, *upper])
    compatible = []
    for n, rate in ((1, 0.1), (10, 0.05), (20, 0.05), (100, 0.05), (330, 0.01), (1000, 0.05)):
        most = max(k for k in range(n + 1) if k == 0 or stats.binom.sf(k - 1, n, rate) > 0.05)
        compatible.append([n, rate, most])
    return {"tails": tails, "rates": rates, "compatible": compatible}


def quantile_places():
    cases = []
    for n in (1, 5, 6, 10, 59, 100, 299, 1000, 10000, 29956, 36887, 100000):
        for p in (0.5, 0.9, 0.99, 0.9999):
            k = np.arange(n + 1)
            below = stats.binom.cdf(k, n, p) <= 0.025
            above = stats.binom.sf(k, n, p) <= 0.025
            lower = int(k[below].max()) if below.any() else None
            upper = int(k[above].min()) if above[:n].any() else None
            cases.append([n, p, lower, upper])
    return cases


def multiplicity():
    cases = []
    for n in (1, 2, 7, 40):
        p = [round(float(value), 9) for value in np.sort(random.random(n) ** 3)[random.permutation(n)]]
        if n > 5:
            p[3] = p[1]
        cases.append({
            "p": p,
            "benjamini_hochberg": stats.false_discovery_control(p, method="bh").tolist(),
            "bonferroni": multipletests(p, method="bonferroni")[1].tolist(),
            "discoveries": int(multipletests(p, alpha=0.05, method="fdr_bh")[0].sum()),
        })
    return cases


def power():
    cases = []
    for paired, deviation, margin, alpha, comparisons, wanted, ratio in (
            (True, 0.05, 0.0, 0.05, 1, 0.8, 1.04), (True, 0.05, 0.05, 0.05, 1, 0.95, 1.1),
            (False, 0.05, 0.0, 0.05, 1, 0.8, 1.05), (False, 0.1, 0.05, 0.05, 40, 0.8, 1.2),
            (True, 0.3, 0.0, 0.01, 10, 0.95, 0.9), (True, 0.04, 0.02, 0.05, 300, 0.8, 0.95)):
        level = alpha / comparisons
        fewest = next(n for n in range(1, 99) if (2.0 ** -n if paired else 1 / math.comb(2 * n, n)) <= level / 2)
        distance = math.log(ratio) - math.log(1 + margin) if ratio > 1 else math.log(1 - margin) - math.log(ratio)

        def reach(n):
            freedom, sides = (n - 1, 1) if paired else (2 * n - 2, 2)
            quantiles = stats.t.ppf(1 - level / 2, freedom) + stats.t.ppf(wanted, freedom)
            return quantiles * deviation * math.sqrt(sides / (3 / math.pi * n))

        needed = next(n for n in range(fewest, 10**6) if reach(n) <= distance)
        assert needed >= 2 * fewest, "the formula is for more runs"
        detectable = float((1 + margin) * math.exp(reach(needed + 3)))
        cases.append([paired, deviation, margin, alpha, comparisons, wanted, ratio, needed, detectable])
    return cases


def mser(values):
    batches = np.mean(np.reshape(values[:len(values) // 5 * 5], (-1, 5)), axis=1)
    errors = [np.sum((batches[d:] - batches[d:].mean()) ** 2) / (len(batches) - d) ** 2 for d in range(len(batches) - 4)]
    return 5 * int(np.argmin(errors))


def series():
    """Samples in time, with what they say about warm-up, autocorrelation and drift."""
    cases = []
    for n, start, slope, memory in ((20, 0, 0, 0), (40, 0, 0.05, 0), (60, 3, 0, 0.5), (203, 5, 0, 0.8), (1000, 8, 0.002, 0.9)):
        noise = random.normal(0, 1, n)
        for i in range(1, n):
            noise[i] += memory * noise[i - 1]
        time = np.arange(n)
        values = rounded(100 + noise + slope * time + start * np.exp(-time / 20))
        centred = np.array(values) - np.mean(values)
        lags = min(n - 1, 30)
        coefficients = [float(np.sum(centred[lag:] * centred[:n - lag]) / np.sum(centred ** 2)) for lag in range(1, lags + 1)]
        total, rho = 0.0, [1.0] + coefficients
        for i in range(0, len(rho) - 1, 2):
            if rho[i] + rho[i + 1] <= 0:
                break
            total += rho[i] + rho[i + 1]
        batch = math.ceil(n / 50)
        means = np.mean(np.reshape(values[:n // batch * batch], (-1, batch)), axis=1)
        p = stats.kendalltau(np.arange(len(means)), means, method="exact").pvalue
        slope = stats.theilslopes(means).slope / batch
        cases.append({"values": values, "mser5": mser(values) if n >= 50 else None, "coefficients": coefficients,
                      "effective": n / max(1.0, 2 * total - 1), "slope": float(slope), "p": float(p)})
    tied = random.integers(0, 4, 30).tolist()
    cases.append({"values": tied, "mser5": None, "coefficients": [], "effective": None,
                  "slope": float(stats.theilslopes(tied).slope), "p": mann_kendall(tied)})
    return cases


def mann_kendall(values):
    n = len(values)
    score = int(sum(np.sign(b - a) for a, b in combinations(values, 2)))
    counts = np.unique(values, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - np.sum(counts * (counts - 1) * (2 * counts + 5))) / 18
    return float(min(1.0, 2 * stats.norm.sf(max(abs(score) - 1, 0) / math.sqrt(variance))))


def modes():
    cases = []
    for n in (4, 5, 8, 12, 20, 50, 100, 400, 1500):
        for kind in ("uniform", "normal", "two", "steps"):
            values = {
                "uniform": lambda: random.random(n),
                "normal": lambda: random.normal(0, 1, n),
                "two": lambda: random.normal(0, 1, n) + 3 * (random.random(n) < 0.4),
                "steps": lambda: random.integers(0, 6, n),
            }[kind]()
            if n == 1500 and kind not in ("normal", "two"):
                continue
            values = [round(float(value), 4) for value in values]
            p = diptest(np.array(values), boot_pval=True, n_boot=20000, n_threads=1, seed=1)[1]
            cases.append({"values": values, "dip": dipstat(np.array(values)), "p": float(p)})
    return cases


def merge(points, values, max_p, min_magnitude):
    """Otava's merge, but for what is judged anew when a point is removed: both neighbours of the gap, where Otava 0.8 takes
    the two points after it, so that the one before keeps the figures of a part that has become longer."""
    tester = analysis.TTestSignificanceTester(max_p)
    while points:
        weakest = max(points, key=lambda point: point.stats.pvalue)
        if weakest.stats.pvalue < max_p:
            weakest = min(points, key=lambda point: point.stats.change_magnitude())
            if weakest.stats.change_magnitude() > min_magnitude:
                break
        points.remove(weakest)
        intervals = tester.get_intervals(points)
        points = [tester.change_point(point.to_candidate(), values, intervals) for point in points]
    return points


def change_points():
    cases = []
    as_is = analysis.merge
    analysis.TTestStats.change_magnitude = lambda self: math.expm1(abs(self.mean_2 - self.mean_1))
    designs = [(n, steps, noise, options) for n, steps, noise in (
        (12, 1, 0.02), (30, 1, 0.05), (60, 2, 0.05), (100, 0, 0.05), (150, 4, 0.03), (300, 6, 0.1), (400, 12, 0.04))
        for options in ((50, 0.001, 0.0), (30, 0.01, 0.05), (20, 0.06, 0.02))]
    for n, steps, noise, (window, max_p, magnitude) in designs:
        at = np.sort(random.choice(np.arange(1, n), steps, replace=False))
        level = np.zeros(n)
        for place in at:
            level[place:] += random.choice([-1, 1]) * random.uniform(0.03, 0.3)
        values = [round(float(value), 5) for value in 20 * np.exp(level + noise * random.normal(0, 1, n))]
        logarithms = np.log(values).tolist()
        analysis.merge = as_is
        unchanged = [int(point.index) for point in analysis.compute_change_points(logarithms, window, max_p, magnitude)[0]]
        analysis.merge = merge
        found, _ = analysis.compute_change_points(logarithms, window, max_p, magnitude)
        points = [[int(point.index), math.exp(point.stats.mean_1), math.exp(point.stats.mean_2), float(point.stats.pvalue)]
                  for point in found]
        cases.append({"values": values, "window": window, "max_p": max_p, "min_change": magnitude, "points": points,
                      "unchanged": unchanged})
    return cases


if __name__ == "__main__":
    golden = {"shifts": shifts(), "ties": ties(), "binomial": binomial(), "quantile_places": quantile_places(),
              "multiplicity": multiplicity(), "power": power(), "series": series(), "modes": modes(),
              "change_points": change_points()}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items())
    (HERE / "golden.json").write_text("{\n" + lines + "\n}\n")
