// Axes of the charts of a report: their ends, ticks, and how values are written.
const scales = (() => {
    "use strict";

    /** Three or four digits, with thin spaces between thousands. */
    function written(value) {
        if (value === 0) return "0";
        const size = Math.abs(value);
        if (size < 1e-3 || size >= 1e9) return value.toExponential(2);
        const digits = size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
        return value.toLocaleString("en", digits).replaceAll(",", "\u202f");
    }

    /** Bytes as the tables have them: 1k, 1M, 1500. */
    function size(bytes) {
        for (const [unit, letter] of [[2 ** 30, "G"], [2 ** 20, "M"], [2 ** 10, "k"]]) {
            if (bytes >= unit && bytes % unit === 0) return bytes / unit + letter;
        }
        return String(bytes);
    }

    /** 10 is 90 %, 100 is 99 %. */
    function percentile(x) {
        const nines = Math.max(Math.round(Math.log10(x)) - 1, 0);
        return `${(100 - 100 / x).toFixed(Math.max(nines - 1, 0)).replace(/\.0+$/, "")}\u202f%`;
    }

    /** An axis of a chart: its kind, ends, ticks, and how its values are written. */
    function axisOf(values, { log = false, whole = false, fromZero = false, label = "" }) {
        const good = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
        let low = Math.min(...ends(good, Math.min));
        let high = Math.max(...ends(good, Math.max));
        if (!good.length) [low, high] = log ? [1, 10] : [0, 1];
        if (log) {
            const room = Math.max((high / low) ** 0.04, 1.05);
            return { type: "log", min: low / room, max: high * room, ticks: logTicks(low / room, high * room), write: written };
        }
        // Differences of a few per cent shall not look large.
        if (fromZero || (low >= 0 && low <= high * 0.7)) low = Math.min(low, 0);
        if (low === high) high = low === 0 ? 1 : low + Math.abs(low) * 0.1;
        const interval = whole ? Math.max(roundStep((high - low) / 5), 1) : roundStep((high - low) / 5);
        const [min, max] = [Math.floor(low / interval) * interval, Math.ceil(high / interval) * interval];
        return { type: "value", min, max, interval, write: written, label };
    }

    function multiples(low, high, step) {
        const found = [];
        for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-12); at++) {
            found.push(Number((at * step).toPrecision(12)));
        }
        return found;
    }

    /** 1, 2 or 5 times a power of ten that is not less. */
    function roundStep(rough) {
        const power = 10 ** Math.floor(Math.log10(rough));
        return [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
    }

    /** The least, or greatest, of parts: a call does not take a hundred thousand arguments. */
    function ends(values, fold) {
        const found = [];
        for (let from = 0; from < values.length; from += 10000) found.push(fold(...values.slice(from, from + 10000)));
        return found;
    }

    /** Powers of ten; over few decades also their 2 and 5 times, and within one decade what is between. */
    function logTicks(low, high) {
        const decades = Math.log10(high / low);
        const factors = decades > 3.5 ? [1] : decades > 0.8 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
        const step = Math.max(1, Math.ceil(decades / 8));
        const ticks = [];
        for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += step) {
            for (const factor of factors) {
                const tick = Number((factor * 10 ** power).toPrecision(3));
                if (tick >= low && tick <= high) ticks.push(tick);
            }
        }
        return ticks;
    }

    /** Values with so much room between them that their labels do not meet; the last is kept. */
    function apart(values, place, least) {
        const kept = [];
        for (const value of [...values].reverse()) {
            if (!kept.length || place(kept[kept.length - 1]) - place(value) >= least) kept.push(value);
        }
        return kept.reverse();
    }

    return { written, size, percentile, axisOf, multiples, roundStep, ends, apart };
})();
