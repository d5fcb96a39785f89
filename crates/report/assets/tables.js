// What a report does beyond its text: sorting, filters, columns, intervals, themes and print; charts.js has its charts. It
// asks nobody for anything, and writes text as text only.
const report = (() => {
    "use strict";

    const root = document.documentElement;
    root.classList.add("js");

    /** An element with properties and children. */
    function make(tag, properties = {}, ...children) {
        const element = document.createElement(tag);
        for (const [name, value] of Object.entries(properties)) {
            if (name in element) element[name] = value;
            else element.setAttribute(name, value);
        }
        element.append(...children);
        return element;
    }

    // ---------------------------------------------------------------- switches

    const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
    const listeners = { theme: [], beforePrint: [], afterPrint: [] };
    const tell = (what) => listeners[what].forEach((listener) => listener());
    let isPrinting = false;

    function isDark() {
        const theme = root.dataset.theme ?? "auto";
        return !isPrinting && (theme === "dark" || (theme === "auto" && systemIsDark.matches));
    }

    function addSwitches() {
        const place = document.querySelector(".switches");
        if (document.querySelector(".interval")) {
            const box = make("input", { type: "checkbox", id: "intervals" });
            box.addEventListener("change", () => root.classList.toggle("intervals", box.checked));
            place.append(make("label", { title: "Show 95 % confidence intervals in tables" }, box, "intervals"));
        }
        const theme = make("select", { id: "theme", ariaLabel: "Theme" });
        for (const name of ["auto", "light", "dark"]) theme.append(make("option", { value: name }, name));
        theme.addEventListener("change", () => {
            root.dataset.theme = theme.value;
            tell("theme");
        });
        place.append(theme);
        systemIsDark.addEventListener("change", () => tell("theme"));
    }

    /** Marks the part of the page that is being read. */
    function followReading() {
        const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
        const seen = new Set();
        const observer = new IntersectionObserver(
            (entries) => {
                for (const entry of entries) {
                    if (entry.isIntersecting) seen.add(entry.target.id);
                    else seen.delete(entry.target.id);
                }
                const now = [...links.keys()].find((id) => seen.has(id));
                for (const [id, link] of links) {
                    if (id === now) link.setAttribute("aria-current", "true");
                    else link.removeAttribute("aria-current");
                }
            },
            { rootMargin: "-60px 0px -60% 0px" },
        );
        document.querySelectorAll("main > section[id]").forEach((section) => observer.observe(section));
    }

    // ---------------------------------------------------------------- tables

    const FEWEST_ROWS_TO_FILTER = 8;
    const FEWEST_COLUMNS_TO_CHOOSE = 5;

    const rules = document.head.appendChild(make("style")).sheet;

    function addTable(box, number) {
        const table = box.querySelector("table");
        const body = table.tBodies[0];
        const rows = [...body.rows];
        const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
        table.id = `table-${number}`;
        heads.forEach((head, column) => addSort(table, body, rows, heads, head, column));
        const tools = make("div", { className: "tools" });
        if (rows.length >= FEWEST_ROWS_TO_FILTER) addFilter(tools, table, rows);
        if (heads.length >= FEWEST_COLUMNS_TO_CHOOSE) addColumns(tools, table, heads);
        if (tools.childElementCount) box.querySelector(".scroll").before(tools);
    }

    function addSort(table, body, rows, heads, head, column) {
        const button = make("button", { type: "button" }, ...head.childNodes);
        if (!head.textContent.trim() && !button.textContent.trim()) return;
        head.append(button);
        button.addEventListener("click", () => {
            const before = head.getAttribute("aria-sort");
            heads.forEach((other) => other.removeAttribute("aria-sort"));
            const next = { null: "ascending", ascending: "descending" }[before];
            table.classList.toggle("sorted", next !== undefined);
            if (next) head.setAttribute("aria-sort", next);
            body.replaceChildren(...(next ? sorted(rows, column, next === "descending") : rows));
        });
    }

    /** The rows by a column: numbers before words, what is missing last. Rows that are equal keep their order. */
    function sorted(rows, column, isDescending) {
        const keyed = rows.map((row) => {
            const cell = row.cells[column];
            if (cell.classList.contains("missing")) return { row, kind: 2 };
            const value = cell.dataset.v;
            if (value === undefined) return { row, kind: 1, key: cell.textContent };
            return { row, kind: 0, key: Number(value) };
        });
        const collator = new Intl.Collator("en", { numeric: true });
        const sign = isDescending ? -1 : 1;
        keyed.sort((a, b) => {
            if (a.kind !== b.kind) return a.kind - b.kind;
            if (a.kind === 2) return 0;
            return sign * (a.kind === 0 ? a.key - b.key : collator.compare(a.key, b.key));
        });
        return keyed.map((one) => one.row);
    }

    function addFilter(tools, table, rows) {
        const input = make("input", { type: "search", placeholder: "Filter rows", ariaLabel: "Filter rows" });
        const count = make("output", {}, `${rows.length} rows`);
        let texts;
        input.addEventListener("input", () => {
            texts ??= rows.map((row) => row.textContent.toLowerCase());
            const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
            table.classList.toggle("filtered", words.length > 0);
            let shown = 0;
            rows.forEach((row, index) => {
                row.hidden = !words.every((word) => texts[index].includes(word));
                shown += row.hidden ? 0 : 1;
            });
            count.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
        });
        tools.append(input, count);
    }

    /** A box for each column but the first, which names the rows. A column is hidden by a rule, not cell by cell. */
    function addColumns(tools, table, heads) {
        const groups = table.tHead.rows.length > 1 ? groupsOf(table.tHead.rows[0]) : [];
        const hidden = new Map();
        const list = make("div");
        heads.forEach((head, column) => {
            const text = head.textContent.replace(/\s+/g, " ").trim();
            if (column === 0 || !text) return;
            const group = groups.find((one) => one.from <= column && column < one.from + one.span);
            const name = group?.cell.textContent ? `${group.cell.textContent} ${text}` : text;
            const box = make("input", { type: "checkbox", checked: true });
            box.addEventListener("change", () => {
                const rule = `#${table.id} tr:not(.groups) > :nth-child(${column + 1})`;
                if (box.checked) {
                    const index = [...rules.cssRules].indexOf(hidden.get(column));
                    rules.deleteRule(index);
                    hidden.delete(column);
                } else {
                    hidden.set(column, rules.cssRules[rules.insertRule(`${rule} { display: none }`)]);
                }
                for (const { cell, from, span } of groups) {
                    const shown = [...Array(span).keys()].filter((place) => !hidden.has(from + place)).length;
                    cell.hidden = shown === 0;
                    cell.colSpan = Math.max(shown, 1);
                }
            });
            list.append(make("label", {}, box, make("bdi", {}, name)));
        });
        tools.append(make("details", { className: "columns" }, make("summary", {}, "Columns"), list));
    }

    function groupsOf(row) {
        let from = 0;
        return [...row.cells].map((cell) => {
            const group = { cell, from, span: cell.colSpan };
            from += cell.colSpan;
            return group;
        });
    }

    // ---------------------------------------------------------------- print

    // More rows than this are not printed beside their chart.
    const MOST_PRINTED = 60;

    function addPrint() {
        let opened = [];
        addEventListener("beforeprint", () => {
            isPrinting = true;
            opened = [...document.querySelectorAll("details:not([open], .columns)")].filter(
                (details) => details.querySelectorAll("tbody tr").length <= MOST_PRINTED,
            );
            opened.forEach((details) => (details.open = true));
            tell("beforePrint");
        });
        addEventListener("afterprint", () => {
            isPrinting = false;
            opened.forEach((details) => (details.open = false));
            tell("afterPrint");
        });
    }

    addSwitches();
    document.querySelectorAll(".table").forEach(addTable);
    addPrint();
    followReading();
    return { make, isDark, isPrinting: () => isPrinting, listeners };
})();
