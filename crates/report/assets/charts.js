// The charts of a report, drawn by ECharts from the data beside them; scales.js has their axes, tables.js the rest of the
// page.
(() => {
    "use strict";

    const { make, isDark } = report;
    const { written, size, percentile, axisOf, multiples, roundStep, ends, apart } = scales;

    // Okabe and Ito's colours, and the same lighter where they would be dark on dark.
    const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#303030"];
    const ON_DARK = {
        "#0072b2": "#4a9fe0",
        "#009e73": "#2bc49a",
        "#d55e00": "#f07a35",
        "#cc79a7": "#e29bc4",
        "#56b4e9": "#a3dcff",
        "#303030": "#e8e8e8",
    };
    const SYMBOLS = {
        Circle: "circle",
        Square: "rect",
        Triangle: "triangle",
        Diamond: "diamond",
        Down: "path://M0,0 L10,0 L5,9 Z",
        Cross: "path://M0,2 L2,0 L5,3 L8,0 L10,2 L7,5 L10,8 L8,10 L5,7 L2,10 L0,8 L3,5 Z",
        Ring: "emptyCircle",
        Dot: "circle",
    };
    const IN_TURN = ["Circle", "Square", "Triangle", "Diamond", "Down", "Cross"];
    const STROKES = { Dashed: [6, 4], Dotted: [2, 3], DashDot: [8, 3, 2, 3] };
    // Of more lines than there are colours.
    const DASHES = ["solid", [7, 4], [2, 3]];
    const MOST_IN_TOOLTIP = 12;
    const MOST_MARKERS = 120;
    const LONG_NAME = 9;

    const charts = new Map();

    function colorOf(given, place) {
        const hex = given
            ? `#${given.map((part) => part.toString(16).padStart(2, "0")).join("")}`
            : PALETTE[place % PALETTE.length];
        return isDark() ? (ON_DARK[hex] ?? hex) : hex;
    }

    function horizontal(chart, width) {
        const kind = Object.keys(chart.x)[0];
        const x = chart.x[kind];
        const all = [
            ...chart.lines.flatMap((line) => line.points.map((point) => point[0])),
            ...chart.bands.flatMap((band) => band.points.map((point) => point[0])),
            ...chart.bars.flatMap((bar) => [bar.from, bar.to]),
            ...chart.marks.filter((mark) => "X" in mark.at).map((mark) => mark.at.X),
        ];
        if (kind === "Categories") return { type: "category", names: x.names, label: x.label, isSequence: isSequence(chart), write: (at) => x.names[at] ?? "" };
        if (kind === "Percentiles") {
            const axis = axisOf(all, { log: true });
            const ticks = [2, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].filter((tick) => tick <= axis.max && tick >= axis.min);
            return { ...axis, ticks, label: x.label, write: percentile, isPercentile: true };
        }
        const axis = { ...axisOf(all, x), label: x.label };
        // It ends where the data end, with room for markers if these are seen.
        if (!x.log && all.length) {
            const [low, high] = [Math.min(...ends(all, Math.min)), Math.max(...ends(all, Math.max))];
            const isFull = chart.bars.length > 0 || chart.lines.some((line) => line.points.length > MOST_MARKERS);
            const room = high > low ? (high - low) * 0.04 : Math.abs(low) * 0.1 || 1;
            [axis.min, axis.max] = isFull ? [low, high] : [low - room, high + room];
            const rough = roundStep((axis.max - axis.min) / Math.min(10, Math.max(3, Math.floor(width / 110))));
            const step = x.whole ? Math.max(rough, 1) : rough;
            delete axis.interval;
            if (!isFull) axis.ticks = multiples(axis.min, axis.max, step);
        }
        if (x.log && /byte|payload|size/i.test(x.label)) {
            axis.write = size;
            const sizes = [...new Set(all)].filter((value) => value > 0).sort((a, b) => a - b);
            const place = (value) => (Math.log(value / axis.min) / Math.log(axis.max / axis.min)) * (width - 80);
            axis.ticks = apart(sizes, place, 44);
        }
        return axis;
    }

    function vertical(chart) {
        const totals = chart.stacks.length
            ? chart.stacks[0].values.map((_, at) => chart.stacks.reduce((sum, stack) => sum + (stack.values[at] ?? 0), 0))
            : [];
        const values = [
            ...chart.lines.flatMap((line) => [
                ...line.points.map((point) => point[1]),
                ...line.intervals.flatMap(([, low, high]) => [low, high]),
            ]),
            ...chart.bands.flatMap((band) => band.points.flatMap(([, low, high]) => [low, high])),
            ...chart.stacks.flatMap((stack) => stack.intervals.flatMap((ends) => ends ?? [])),
            ...chart.bars.map((bar) => bar.count),
            ...chart.marks.filter((mark) => "Y" in mark.at).map((mark) => mark.at.Y),
            ...totals,
        ];
        const isFromZero = chart.y.from_zero || chart.stacks.length > 0 || chart.bars.length > 0;
        const finite = values.filter((value) => value !== null);
        return { ...axisOf(finite, { log: chart.y.log, whole: chart.y.whole, fromZero: isFromZero }), label: chart.y.label };
    }

    /** What can be switched on and off: lines, stacks, bands, and marks, with how each looks. */
    function entriesOf(chart) {
        let [color, symbol] = [0, 0];
        const next = (given) => colorOf(given, given ? 0 : color++);
        const bars = chart.bars.length ? [{ kind: "bars", name: "", color: colorOf(null, 0) }] : [];
        const stacks = chart.stacks.map((stack) => ({ kind: "stack", name: stack.name, color: next(stack.color), of: stack }));
        const bands = chart.bands.map((band) => ({ kind: "band", name: band.name, color: colorOf(null, 0), of: band }));
        const lines = chart.lines.map((line) => {
            const { marker, stroke, strong } = line.look;
            const place = color;
            return {
                kind: "line",
                name: line.name,
                color: next(line.look.color),
                symbol: marker === "None" ? "none" : SYMBOLS[marker === "Auto" ? IN_TURN[symbol++ % IN_TURN.length] : marker],
                symbolSize: marker === "Dot" ? 3 : marker === "Ring" ? 13 : 8,
                dash: STROKES[stroke] ?? DASHES[Math.floor(place / PALETTE.length) % DASHES.length],
                width: strong ? 3 : 1.75,
                isScatter: stroke === "None",
                of: line,
            };
        });
        const marks = chart.marks.map((mark) => ({ kind: "mark", name: mark.name, color: colorOf(mark.color, 0), of: mark }));
        const all = [...bars, ...stacks, ...bands, ...lines, ...marks];
        all.forEach((entry, index) => (entry.id = String(index)));
        return all;
    }

    /** Categories in the order of time, which goes from left to right: their points are joined. */
    const isSequence = (chart) => !!chart.x.Categories && chart.lines.some((line) => line.look.stroke !== "None");

    /** Long names of categories are read from left to right: the axes change places. */
    function isTurned(chart) {
        const names = chart.x.Categories?.names;
        return !!names && !isSequence(chart) && (names.length > 12 || names.some((name) => name.length > LONG_NAME)) && names.length > 0;
    }

    const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

    /** A date and its time below each other. */
    const dated = (name) => name.split(/[_T](?=\d\d[-:])/).map((part) => cut(part, 12)).join("\n");

    function axisOption(axis, isUpright, width, look) {
        const shared = {
            axisLine: { show: !isUpright, onZero: false, lineStyle: { color: look.soft } },
            axisTick: { show: false },
            splitLine: { show: isUpright, lineStyle: { color: look.line } },
        };
        const text = { color: look.soft, fontSize: 12, hideOverlap: true, margin: isUpright ? 8 : 10 };
        if (axis.type === "category") {
            const most = isUpright ? Math.max(10, Math.min(38, Math.floor(width / 20))) : LONG_NAME;
            return {
                type: "category",
                data: axis.names.map((name, index) => ({ value: String(index), textStyle: {} })),
                inverse: isUpright,
                ...shared,
                splitLine: { show: false },
                axisLabel: { ...text, color: look.ink, interval: isUpright ? 0 : "auto", lineHeight: 14, formatter: (at) => (axis.isSequence ? dated(axis.names[at]) : cut(axis.names[at], most)) },
            };
        }
        const ticks = axis.ticks ? { customValues: axis.ticks } : {};
        // Six labels need some room; on less, ECharts takes fewer.
        const isFar = !isUpright && width < 420;
        return {
            type: axis.type,
            min: axis.min,
            max: axis.max,
            ...(axis.interval && !isFar ? { interval: axis.interval } : {}),
            ...shared,
            axisTick: { show: !isUpright, lineStyle: { color: look.soft }, ...ticks },
            splitLine: { show: isUpright || axis.type === "log", lineStyle: { color: look.line } },
            splitNumber: isUpright ? 5 : Math.max(3, Math.floor(width / 110)),
            axisLabel: {
                ...text,
                ...ticks,
                // Ends that are no round numbers have no label.
                showMinLabel: axis.interval || axis.ticks ? null : axis.min === 0,
                showMaxLabel: axis.interval || axis.ticks ? null : false,
                formatter: axis.write,
            },
        };
    }

    /** Upright bars from the low to the high end, with caps; `at` gives the ends of each. */
    function errorBars(entry, rows, isFlat) {
        return {
            type: "custom",
            name: entry.id,
            silent: true,
            z: 3,
            data: rows,
            encode: isFlat ? { x: [1, 2], y: 0 } : { x: 0, y: [1, 2] },
            renderItem: (params, api) => {
                const at = (value) => api.coord(isFlat ? [value, api.value(0)] : [api.value(0), value]);
                const [low, high] = [at(api.value(1)), at(api.value(2))];
                const cap = isFlat ? [0, 4] : [4, 0];
                const line = (from, to) => ({
                    type: "line",
                    shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] },
                    style: { stroke: entry.edge ?? entry.color, lineWidth: 1.25 },
                });
                const end = (point) => line([point[0] - cap[0], point[1] - cap[1]], [point[0] + cap[0], point[1] + cap[1]]);
                return { type: "group", children: [line(low, high), end(low), end(high)] };
            },
        };
    }

    /** The area between the ends of intervals. */
    function ribbon(entry, rows) {
        return {
            type: "custom",
            name: entry.id,
            silent: true,
            z: 1,
            data: [rows.flat()],
            encode: { x: 0, y: 1 },
            clip: true,
            renderItem: (params, api) => {
                const points = [...rows.map(([x, , high]) => [x, high]), ...rows.map(([x, low]) => [x, low]).reverse()];
                return {
                    type: "polygon",
                    shape: { points: points.map((point) => api.coord(point)) },
                    style: { fill: entry.color, opacity: 0.18 },
                };
            },
        };
    }

    /** Rectangles: from, to, low, high of each. */
    function boxes(entry, rows, opacity) {
        return {
            type: "custom",
            name: entry.id,
            data: rows,
            encode: { x: [0, 1], y: [2, 3] },
            clip: true,
            renderItem: (params, api) => {
                const [left, top] = api.coord([api.value(0), api.value(3)]);
                const [right, bottom] = api.coord([api.value(1), api.value(2)]);
                // What is there is seen, however small.
                const height = Math.max(bottom - top, 2);
                return {
                    type: "rect",
                    shape: { x: left, y: bottom - height, width: Math.max(right - left - 0.5, 1), height },
                    style: { fill: entry.color, opacity },
                };
            },
        };
    }

    function seriesOf(entry, chart, axes, isFlat) {
        const { y } = axes;
        const floor = y.type === "log" ? y.min : 0;
        const isShown = (value) => Number.isFinite(value) && (y.type !== "log" || value > 0);
        switch (entry.kind) {
            case "bars":
                return [boxes(entry, chart.bars.filter((bar) => bar.count > 0).map((bar) => [bar.from, bar.to, floor, bar.count]), 0.85)];
            case "band": {
                const points = entry.of.points.filter(([, low, high]) => isShown(low) && isShown(high));
                const half = points.length > 1 ? (points[1][0] - points[0][0]) / 2 : 0.5;
                return [boxes(entry, points.map(([x, low, high]) => [x - half, x + half, low, high]), 0.4)];
            }
            case "stack": {
                const data = entry.of.values.map((value) => value ?? "-");
                const rows = entry.of.intervals.flatMap((ends, at) => (ends && ends.every(isShown) ? [[at, ...ends]] : []));
                const bar = {
                    type: "bar",
                    name: entry.id,
                    stack: "all",
                    barMaxWidth: 36,
                    barCategoryGap: "30%",
                    data,
                    itemStyle: { color: entry.color },
                };
                return rows.length ? [bar, errorBars({ ...entry, edge: axes.look.ink }, rows, isFlat)] : [bar];
            }
            case "line": {
                const turn = (point) => (isFlat ? [point[1], point[0]] : [point[0], point[1]]);
                const points = entry.of.points.map(([x, value]) => turn([x, isShown(value) ? value : "-"]));
                const isMany = points.length > MOST_MARKERS;
                const line = {
                    type: entry.isScatter ? "scatter" : "line",
                    name: entry.id,
                    data: points,
                    symbol: entry.symbol,
                    symbolSize: isMany ? Math.min(entry.symbolSize, 4) : entry.symbolSize,
                    showSymbol: !isMany && entry.symbol !== "none",
                    itemStyle: { color: entry.color, opacity: isMany && entry.isScatter ? 0.7 : 1 },
                    lineStyle: { color: entry.color, width: isMany ? 1.25 : entry.width, type: entry.dash },
                    emphasis: { focus: "series", lineStyle: { width: entry.width + 1 } },
                    blur: { itemStyle: { opacity: 0.25 }, lineStyle: { opacity: 0.2 } },
                    z: 4,
                };
                const rows = entry.of.intervals.filter(([, low, high]) => isShown(low) && isShown(high));
                if (!rows.length) return [line];
                return [line, axes.x.isPercentile && rows.length > 1 ? ribbon(entry, rows) : errorBars(entry, rows, isFlat)];
            }
            default: {
                const isX = "X" in entry.of.at !== isFlat;
                const at = Object.values(entry.of.at)[0];
                return [
                    {
                        type: "line",
                        name: entry.id,
                        data: [],
                        silent: true,
                        markLine: {
                            silent: true,
                            symbol: "none",
                            animation: false,
                            label: { show: false },
                            lineStyle: { color: entry.color, type: [5, 4], width: 1.5 },
                            data: [{ [isX ? "xAxis" : "yAxis"]: at }],
                        },
                    },
                ];
            }
        }
    }

    /** A line of the tooltip: sign, name and value. */
    function tipLine(entry, text) {
        return make("div", {}, sign(entry), make("bdi", {}, cut(entry.name, 60)), make("span", {}, text));
    }

    function tooltip(chart, entries, axes, isFlat) {
        const byId = new Map(entries.map((entry) => [entry.id, entry]));
        const named = entries.filter((entry) => entry.kind === "line" || entry.kind === "stack");
        const ends = (low, high) => `${axes.y.write(low)} to ${axes.y.write(high)}`;
        const interval = (entry, point) => {
            const ofStack = entry.kind === "stack" ? entry.of.intervals[point.dataIndex] : null;
            const x = entry.kind === "line" ? entry.of.points[point.dataIndex]?.[0] : null;
            const found = ofStack ?? entry.of.intervals?.find((one) => one?.[0] === x)?.slice(1);
            return found && found.every(Number.isFinite) ? ` (${ends(...found)})` : "";
        };
        const line = (point) => {
            const entry = byId.get(point.seriesName);
            if (point.seriesType !== "custom") {
                const value = entry.kind === "stack" ? entry.of.values[point.dataIndex] : entry.of.points[point.dataIndex]?.[1];
                return Number.isFinite(value) ? [value, tipLine(entry, axes.y.write(value) + interval(entry, point))] : null;
            }
            const [from, to, low, high] = point.value;
            const text = entry.kind === "bars" ? written(high) : ends(low, high);
            return [high, tipLine({ ...entry, name: entry.name || `${written(from)} to ${written(to)}` }, text)];
        };
        const head = (point) => {
            const entry = byId.get(point.seriesName);
            if (entry.kind === "stack") return axes.x.write(point.dataIndex);
            const x = entry.kind === "line" ? entry.of.points[point.dataIndex]?.[0] : (point.value[0] + point.value[1]) / 2;
            return axes.x.write(x);
        };
        const isOfAxis = named.length <= MOST_IN_TOOLTIP && !entries.every((entry) => entry.isScatter || entry.kind === "mark");
        return {
            trigger: isOfAxis ? "axis" : "item",
            axisPointer: { type: chart.stacks.length ? "shadow" : "line", axis: isFlat ? "y" : "x", label: { show: false } },
            confine: true,
            transitionDuration: 0,
            backgroundColor: axes.look.page,
            borderColor: axes.look.line,
            padding: [6, 9],
            textStyle: { color: axes.look.ink, fontSize: 13 },
            formatter: (points) => {
                const list = (Array.isArray(points) ? points : [points]).filter((point) => byId.get(point.seriesName));
                if (!list.length) return "";
                const lines = list.map(line).filter(Boolean);
                if (!chart.stacks.length) lines.sort((a, b) => b[0] - a[0]);
                const above = axes.x.label && axes.x.type !== "category" ? `${axes.x.label}: ` : "";
                return make("div", { className: "tip" }, make("b", {}, cut(above + head(list[0]), 400)), ...lines.map((one) => one[1]));
            },
        };
    }

    const SVG = "http://www.w3.org/2000/svg";

    /** A small picture of a line, as it is in the legend. */
    function sign(entry) {
        const svg = document.createElementNS(SVG, "svg");
        const add = (tag, attributes) => {
            const shape = svg.appendChild(document.createElementNS(SVG, tag));
            for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
        };
        const isLine = entry.kind === "line" || entry.kind === "mark";
        const wide = isLine && !entry.isScatter ? 24 : 12;
        for (const [name, value] of [["width", wide], ["height", 12], ["viewBox", `0 0 ${wide} 12`], ["aria-hidden", "true"]]) {
            svg.setAttribute(name, value);
        }
        if (!isLine) {
            add("rect", { width: 12, height: 12, rx: 2, fill: entry.color, opacity: entry.kind === "band" ? 0.4 : 1 });
            return svg;
        }
        if (!entry.isScatter) {
            const dash = entry.kind === "mark" ? [5, 4] : entry.dash;
            const dashes = dash === "solid" ? {} : { "stroke-dasharray": dash.join(" ") };
            add("line", { x1: 0, y1: 6, x2: 24, y2: 6, stroke: entry.color, "stroke-width": 2, ...dashes });
        }
        const fill = { fill: entry.color };
        const middle = wide / 2;
        const ring = { fill: "none", stroke: entry.color, "stroke-width": 2 };
        const path = entry.symbol?.startsWith("path://") ? entry.symbol.slice(7) : null;
        if (path) add("path", { d: path, transform: `translate(${middle - 4.5} 1.5) scale(0.9)`, ...fill });
        else if (entry.symbol === "circle") add("circle", { cx: middle, cy: 6, r: 4, ...fill });
        else if (entry.symbol === "rect") add("rect", { x: middle - 4, y: 2, width: 8, height: 8, ...fill });
        else if (entry.symbol === "triangle") add("path", { d: "M0 1.5 L4.5 10 L-4.5 10 Z", transform: `translate(${middle})`, ...fill });
        else if (entry.symbol === "diamond") add("path", { d: "M0 1 L5 6 L0 11 L-5 6 Z", transform: `translate(${middle})`, ...fill });
        else if (entry.symbol === "emptyCircle") add("circle", { cx: middle, cy: 6, r: 5, ...ring });
        return svg;
    }

    /** The legend: a button for each line that switches it on and off. Drawn again, it keeps its buttons. */
    function addLegend(figure, chart, entries, state) {
        const named = entries.filter((entry) => entry.name);
        const list = figure.querySelector(".series");
        if (list) {
            named.forEach((entry, at) => list.children[at].querySelector("svg").replaceWith(sign(entry)));
            return;
        }
        if (!named.length || (named.length === 1 && named[0].kind !== "mark" && !chart.marks.length)) return;
        const items = named.map((entry) => {
            const inner = [sign(entry), make("bdi", {}, cut(entry.name, 300))];
            const title = cut(entry.name, 500);
            if (entry.kind === "mark") return make("li", {}, make("span", { className: "mark", title }, ...inner));
            const button = make("button", { type: "button", title, ariaPressed: "true" }, ...inner);
            button.addEventListener("click", () => {
                const isOn = button.ariaPressed === "true";
                button.ariaPressed = String(!isOn);
                state.off[isOn ? "add" : "delete"](entry.id);
                state.drawn.dispatchAction({ type: "legendToggleSelect", name: entry.id });
            });
            button.addEventListener("pointerenter", () => state.drawn.dispatchAction({ type: "highlight", seriesName: entry.id }));
            button.addEventListener("pointerleave", () => state.drawn.dispatchAction({ type: "downplay", seriesName: entry.id }));
            return make("li", {}, button);
        });
        figure.querySelector(".axis.x").after(make("ul", { className: "series" }, ...items));
    }

    function lookOf() {
        return isDark()
            ? { ink: "#dfe4ea", soft: "#9aa5b1", line: "#2b323b", page: "#1f252d" }
            : { ink: "#1d2430", soft: "#5a6472", line: "#e3e7ec", page: "#ffffff" };
    }

    function draw(figure) {
        const state = charts.get(figure);
        state.data ??= JSON.parse(figure.querySelector("script").textContent);
        const chart = state.data;
        const place = figure.querySelector(".canvas");
        const width = place.clientWidth || 680;
        const isFlat = isTurned(chart);
        const [x, y, look] = [horizontal(chart, width), vertical(chart), lookOf()];
        const axes = { x, y, look };
        const entries = entriesOf(chart);
        const [yLabel, xLabel] = ["y", "x"].map((name) => figure.querySelector(`.axis.${name}`));
        [yLabel.textContent, xLabel.textContent] = isFlat ? [x.label, y.label] : [y.label, x.label];
        if (isFlat) place.style.height = `${Math.max(x.names.length * (chart.stacks.length ? 30 : 26) + 50, 120)}px`;
        const isFirst = !state.drawn;
        state.drawn ??= echarts.init(place, null, { renderer: "canvas" });
        // Times within a run can be looked at more closely; a finger scrolls the page.
        const isZoomed = x.type === "value" && matchMedia("(pointer: fine)").matches;
        const option = {
            animation: false,
            textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
            aria: { enabled: true, label: { description: ariaText(figure) }, decal: { show: chart.stacks.length > 1 } },
            grid: { left: 2, right: 10, top: 10, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
            legend: {
                show: false,
                data: entries.map((entry) => entry.id),
                selected: Object.fromEntries([...state.off].map((id) => [id, false])),
            },
            tooltip: tooltip(chart, entries, axes, isFlat),
            xAxis: axisOption(isFlat ? y : x, false, width, look),
            yAxis: axisOption(isFlat ? x : y, true, width, look),
            dataZoom: isZoomed ? [{ type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false }] : [],
            series: entries.flatMap((entry) => seriesOf(entry, chart, axes, isFlat)),
        };
        if (isFlat) option.xAxis.splitLine = { show: true, lineStyle: { color: look.line } };
        state.drawn.resize({ width, height: place.clientHeight, silent: true });
        state.drawn.setOption(option, { notMerge: true });
        if (isZoomed && isFirst) state.drawn.getZr().on("dblclick", () => state.drawn.dispatchAction({ type: "dataZoom", start: 0, end: 100 }));
        state.width = width;
        addLegend(figure, chart, entries, state);
        figure.dataset.drawn = "true";
    }

    function ariaText(figure) {
        const parts = [...figure.querySelectorAll("figcaption > *")].map((part) => part.textContent);
        return `${parts.join(" ")} The numbers are in the table below the chart.`;
    }

    function redrawAll() {
        for (const [figure, state] of charts) if (state.drawn) draw(figure);
    }

    function addCharts() {
        const figures = [...document.querySelectorAll("figure.chart")];
        const seen = new IntersectionObserver(
            (entries) => {
                for (const { isIntersecting, target } of entries) {
                    if (!isIntersecting) continue;
                    seen.unobserve(target);
                    if (!charts.get(target).drawn) draw(target);
                }
            },
            { rootMargin: "400px 0px" },
        );
        for (const figure of figures) {
            charts.set(figure, { off: new Set() });
            seen.observe(figure);
        }
        const sized = new ResizeObserver((entries) => {
            if (report.isPrinting()) return;
            for (const { target } of entries) {
                const state = charts.get(target);
                if (state.drawn && state.width !== target.querySelector(".canvas").clientWidth) draw(target);
            }
        });
        figures.forEach((figure) => sized.observe(figure));
    }

    // As wide as a page of A4 or Letter leaves room for.
    const PRINTED_WIDTH = 660;

    function addPrint() {
        report.listeners.beforePrint.push(() => {
            for (const [figure, state] of charts) {
                figure.querySelector(".canvas").style.width = `${PRINTED_WIDTH}px`;
                draw(figure);
                state.drawn.getZr().flush();
            }
        });
        report.listeners.afterPrint.push(() => {
            for (const figure of charts.keys()) {
                figure.querySelector(".canvas").style.width = "";
                draw(figure);
            }
        });
    }

    addCharts();
    addPrint();
    report.listeners.theme.push(redrawAll);
})();
