#!/usr/bin/env node
// Opens HTML reports in a browser, as a reader would: tests/browser/run.mjs [--screenshots DIR] REPORT.html...
//
// Each must open from disk without an error or a request, draw its charts, sort and filter its tables, switch columns,
// intervals and themes, fit a phone, and print. Names that try to be more than text must have stayed text. It prints a line
// for each check that failed, and at the end how many passed and failed. It needs Chromium (TRIPMETER_CHROMIUM) and
// playwright-core, which tests/browser/run.sh installs.
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const arguments_ = process.argv.slice(2);
let screenshots = null;
if (arguments_[0] === "--screenshots") {
    screenshots = arguments_[1];
    mkdirSync(screenshots, { recursive: true });
    arguments_.splice(0, 2);
}
if (arguments_.length === 0) {
    console.error("usage: tests/browser/run.mjs [--screenshots DIR] REPORT.html...");
    process.exit(64);
}

// Opening takes half a second on a quiet machine; one that tests share may stand still for seconds.
const SLOWEST_OPENING_MS = 20_000;
// A sort of 1,300 rows takes as long as laying the page out once or twice, on whatever machine.
const SLOWEST_SORT = 10;

let [passed, failed] = [0, 0];

function check(is, file, what, detail = "") {
    if (is) passed += 1;
    else {
        failed += 1;
        console.log(`FAILED ${basename(file)}: ${what}${detail === "" ? "" : `: ${detail}`}`);
    }
}

const browser = await chromium.launch({
    executablePath: process.env.TRIPMETER_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

/** A page that notes every error, every dialog and every request but that for itself. */
async function open(file, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const page = await context.newPage();
    const bad = [];
    page.on("console", (message) => {
        if (["error", "warning"].includes(message.type())) bad.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => bad.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
        bad.push(`dialog: ${dialog.message()}`);
        dialog.dismiss();
    });
    const url = pathToFileURL(resolve(file)).href;
    page.on("request", (request) => {
        if (request.url().split("#")[0] !== url) bad.push(`request: ${request.url().slice(0, 100)}`);
    });
    await page.goto(url, { waitUntil: "load" });
    return { page, bad, close: () => context.close() };
}

/** Scrolls from chart to chart, so that all are drawn. */
async function drawAll(page) {
    for (const figure of await page.$$("figure.chart")) {
        await figure.scrollIntoViewIfNeeded();
        await figure.waitForSelector(".canvas canvas", { timeout: 60_000, state: "attached" });
    }
    await page.waitForFunction(
        () => [...document.querySelectorAll("figure.chart")].every((figure) => figure.dataset.drawn),
        { timeout: 60_000 },
    );
}

/** The charts whose canvas has a single colour. */
function blankCharts(page) {
    return page.evaluate(() => {
        const isBlank = (canvas) => {
            const { width, height } = canvas;
            // A copy: reading a canvas itself makes the browser draw it in another way from then on.
            const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const pixels = new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer);
            return pixels.every((pixel) => pixel === pixels[0]);
        };
        const figures = [...document.querySelectorAll("figure.chart")];
        return figures
            .filter((figure) => [...figure.querySelectorAll("canvas")].every(isBlank))
            .map((figure) => figure.querySelector("h3").textContent.slice(0, 60));
    });
}

/** Charts over time whose axis of time is not the horizontal one, however long the names on it are. */
function turnedTimes(page) {
    return page.evaluate(() => {
        const isTurned = (figure) => {
            const { x, lines } = JSON.parse(figure.querySelector("script").textContent);
            const isTime = x.Categories && lines.some((line) => line.look.stroke !== "None");
            return isTime && figure.querySelector(".axis.x").textContent !== x.Categories.label;
        };
        const turned = [...document.querySelectorAll("figure.chart")].filter(isTurned);
        return turned.map((figure) => figure.querySelector("h3").textContent.slice(0, 60));
    });
}

async function screenshot(page, file, name) {
    if (screenshots) await page.screenshot({ path: join(screenshots, `${basename(file, ".html")}-${name}.png`), fullPage: true });
}

async function tables(page, file) {
    const count = await page.locator(".table").count();
    for (let index = 0; index < count; index++) {
        const table = page.locator(".table").nth(index);
        if (!(await table.isVisible())) continue;
        const what = `table ${index + 1}`;
        check((await table.locator("caption").count()) === 1, file, `${what} has a caption`);
        check((await table.locator("thead th:not([scope])").count()) === 0, file, `${what} has heads with a scope`);
        await sorting(table, file, what);
        await filtering(table, file, what);
        await columns(table, file, what);
    }
}

async function sorting(table, file, what) {
    const head = table.locator("thead th:has(button)").last();
    const rows = () =>
        table.evaluate((box) => {
            const heads = [...box.querySelectorAll("thead tr:last-child > *")];
            const at = heads.findIndex((one) => one.hasAttribute("aria-sort"));
            const rows = [...box.querySelectorAll("tbody tr")];
            const value = (row) => (row.cells[at]?.dataset.v === undefined ? null : Number(row.cells[at].dataset.v));
            return { texts: rows.map((row) => row.textContent), values: rows.map(value) };
        });
    const before = await rows();
    // As from a keyboard.
    const press = async () => {
        await head.locator("button").focus();
        await head.locator("button").press("Enter");
        return [await head.getAttribute("aria-sort"), await rows()];
    };
    for (const [order, sign] of [["ascending", 1], ["descending", -1]]) {
        const [found, now] = await press();
        check(found === order, file, `${what} says that it is ${order}`, found);
        const numbers = now.values.slice(0, now.values.findLastIndex((value) => value !== null) + 1);
        const isSorted = numbers.every((value, at) => at === 0 || (value !== null && sign * (value - numbers[at - 1]) >= 0));
        check(isSorted, file, `${what} is ${order}, with what is missing last`, JSON.stringify(now.values.slice(0, 20)));
        const [one, other] = [now.texts, before.texts].map((texts) => [...texts].sort().join("\n"));
        check(one === other, file, `${what} has all its rows when it is ${order}`);
    }
    const [none, after] = await press();
    check(none === null && after.texts.join("\n") === before.texts.join("\n"), file, `${what} comes back to its first order`);
}

async function filtering(table, file, what) {
    const input = table.locator("input[type=search]");
    if ((await input.count()) === 0) return;
    const shown = () => table.locator("tbody tr:visible").count();
    const all = await shown();
    await input.fill("there is no such row");
    check((await shown()) === 0, file, `${what} filters everything`);
    check((await table.locator("output").textContent()).startsWith("0 of "), file, `${what} counts what is left`);
    const word = (await table.locator("tbody tr").first().locator("th, td").first().textContent()).trim().split(/\s+/)[0];
    await input.fill(word.slice(0, 200));
    const some = await shown();
    check(some >= 1 && some <= all, file, `${what} filters by its first word`, `${some} of ${all}`);
    await input.fill("");
    check((await shown()) === all, file, `${what} shows all rows again`);
}

async function columns(table, file, what) {
    if ((await table.locator("details.columns").count()) === 0) return;
    await table.locator("details.columns summary").click();
    const boxes = table.locator("details.columns input");
    const cells = () => table.locator("tbody tr").first().locator("th:visible, td:visible").count();
    const before = await cells();
    await boxes.last().uncheck();
    check((await cells()) === before - 1, file, `${what} hides a column`);
    await boxes.first().uncheck();
    check((await cells()) === before - 2, file, `${what} hides a second column`);
    await boxes.last().check();
    await boxes.first().check();
    check((await cells()) === before, file, `${what} shows the columns again`);
    await table.locator("details.columns summary").click();
}

async function switches(page, file) {
    const box = page.locator("#intervals");
    if ((await box.count()) === 1) {
        const shown = () => page.locator(".table > .scroll .interval:visible").count();
        check((await shown()) === 0, file, "intervals are hidden at first");
        await box.check();
        check((await shown()) > 0, file, "intervals are shown when they are asked for");
        await box.uncheck();
    }
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await paper();
    await page.selectOption("#theme", "dark");
    check((await paper()) !== light, file, "the dark theme is dark");
    check((await blankCharts(page)).length === 0, file, "charts are drawn in the dark theme");
    await page.selectOption("#theme", "light");
    check((await paper()) === light, file, "the light theme is light");
    await page.selectOption("#theme", "auto");
    await page.emulateMedia({ colorScheme: "dark" });
    check((await paper()) !== light, file, "the theme follows the system's");
    await page.emulateMedia({ colorScheme: "light" });
}

async function legends(page, file) {
    const button = page.locator("figure.chart .series button").first();
    if ((await button.count()) === 0) return;
    const picture = () => page.locator("figure.chart:has(.series button) canvas").first().evaluate((canvas) => canvas.toDataURL());
    await button.scrollIntoViewIfNeeded();
    await page.mouse.move(0, 0);
    const before = await picture();
    await button.focus();
    await button.press("Enter");
    check((await button.getAttribute("aria-pressed")) === "false", file, "a line of a chart can be switched off");
    await page.waitForFunction((was) => {
        return document.querySelector("figure.chart:has(.series button) canvas").toDataURL() !== was;
    }, before, { timeout: 60_000 }).catch(() => check(false, file, "a line that is switched off is not drawn"));
    await button.press("Enter");
}

/** No two lines of a chart look the same, but where there are more than can. */
async function toldApart(page, file) {
    const alike = await page.evaluate(() => {
        const MOST = 12;
        const isAlike = (figure) => {
            const signs = [...figure.querySelectorAll(".series button svg")].map((svg) => svg.outerHTML);
            return signs.length <= MOST && new Set(signs).size !== signs.length;
        };
        const figures = [...document.querySelectorAll("figure.chart")].filter(isAlike);
        return figures.map((figure) => figure.querySelector("h3").textContent.slice(0, 60));
    });
    check(alike.length === 0, file, "the lines of a chart are told apart", alike.join("; "));
}

/** No part of the page is wider than its window, but within boxes that scroll. */
function overflow(page) {
    return page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        return scrollWidth > clientWidth ? `${scrollWidth} > ${clientWidth}` : "";
    });
}

async function phone(file) {
    const { page, bad, close } = await open(file, { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
    await drawAll(page);
    const wide = await overflow(page);
    check(wide === "", file, "the page does not scroll sideways on a phone", wide);
    check((await blankCharts(page)).length === 0, file, "charts are drawn on a phone");
    await screenshot(page, file, "phone");
    check(bad.length === 0, file, "no error on a phone", bad.join("; "));
    await close();
}

async function withoutScripts(file) {
    const { page, bad, close } = await open(file, { javaScriptEnabled: false });
    check((await page.locator("h1").textContent()) !== "", file, "there is a title without scripts");
    const hidden = await page.locator("tbody tr:not(details *)").count();
    const shown = await page.locator("tbody tr:not(details *):visible").count();
    check(hidden === shown, file, "all tables are readable without scripts", `${shown} of ${hidden}`);
    const charts = await page.locator("figure.chart").count();
    const numbers = await page.locator("figure.chart details.values table").count();
    check(numbers >= charts, file, "every chart has its numbers beside it", `${numbers} of ${charts}`);
    check(bad.length === 0, file, "no error without scripts", bad.join("; "));
    await close();
}

/** Nothing of the document became an element: a script, a picture or a handler. */
async function onlyText(page, file) {
    const strange = await page.evaluate(() => {
        const selectors = "img, iframe, object, embed, link, base, form, video, audio, main script:not([type])";
        const found = [...document.querySelectorAll(selectors)].map((one) => one.outerHTML.slice(0, 80));
        const handlers = [...document.querySelectorAll("*")].flatMap((one) =>
            [...one.attributes].filter((attribute) => attribute.name.startsWith("on")).map((attribute) => attribute.name),
        );
        return [...found, ...handlers];
    });
    check(strange.length === 0, file, "all text stayed text", strange.join("; "));
    const ids = await page.evaluate(() => [...document.querySelectorAll("[id]")].map((one) => one.id));
    check(new Set(ids).size === ids.length, file, "every id is there once");
    const links = await page.evaluate(() => [...document.querySelectorAll("a[href^='#']")].filter((a) => !document.getElementById(a.hash.slice(1))).map((a) => a.hash));
    check(links.length === 0, file, "every link leads somewhere", links.join(" "));
}

async function printing(page, file) {
    const pdf = await page.pdf({ format: "A4" });
    check(pdf.subarray(0, 5).toString() === "%PDF-" && pdf.length > 5000, file, "the page prints", `${pdf.length} bytes`);
    if (screenshots) writeFileSync(join(screenshots, `${basename(file, ".html")}.pdf`), pdf);
    check((await blankCharts(page)).length === 0, file, "charts are drawn after printing");
}

/** The largest table sorts in about the time that it takes to lay the page out anew. */
async function responsive(page, file) {
    const times = await page.evaluate(() => {
        const tables = [...document.querySelectorAll(".table table")];
        const table = tables.reduce((most, one) => (one.rows.length > most.rows.length ? one : most), tables[0]);
        if (!table || table.rows.length < 500) return null;
        const timed = (work) => {
            const began = performance.now();
            work();
            void document.body.offsetHeight;
            return performance.now() - began;
        };
        const layouts = ["0.9rem", ""].map((size) => timed(() => (table.style.fontSize = size)));
        const layout = Math.max(...layouts);
        const button = table.querySelector("thead th:nth-child(3) button");
        const sort = Math.min(...[1, 2, 3].map(() => timed(() => button.click())));
        return { rows: table.rows.length, layout, sort };
    });
    if (!times) return;
    const { rows, layout, sort } = times;
    console.log(`${basename(file)}: ${rows} rows: sorted in ${sort.toFixed(0)} ms, laid out in ${layout.toFixed(0)} ms`);
    check(sort <= SLOWEST_SORT * layout, file, "a sort takes no longer than some layouts", `${sort} ms`);
}

for (const file of arguments_) {
    const { page, bad, close } = await open(file);
    const opened = await page.evaluate(() => {
        void document.body.offsetHeight;
        return performance.getEntriesByType("navigation")[0].loadEventEnd;
    });
    console.log(`${basename(file)}: opened in ${opened.toFixed(0)} ms`);
    check(opened < SLOWEST_OPENING_MS, file, "the page opens at once", `${opened} ms`);
    await page.keyboard.press("Tab");
    const first = await page.evaluate(() => document.activeElement.hash);
    check(first === "#main", file, "the first thing that a keyboard meets skips the links", first);
    await onlyText(page, file);
    await drawAll(page);
    const blank = await blankCharts(page);
    check(blank.length === 0, file, "every chart is drawn", blank.join("; "));
    const turned = await turnedTimes(page);
    check(turned.length === 0, file, "time goes from left to right", turned.join("; "));
    const silent = await page.locator(".canvas:not([role=img][aria-label])").count();
    check(silent === 0, file, "every chart says what it shows", silent);
    await page.evaluate(() => scrollTo(0, 0));
    await screenshot(page, file, "light");
    const wide = await overflow(page);
    check(wide === "", file, "the page does not scroll sideways", wide);
    await responsive(page, file);
    await tables(page, file);
    await switches(page, file);
    await legends(page, file);
    await toldApart(page, file);
    await printing(page, file);
    check(bad.length === 0, file, "no error, dialog or request", bad.slice(0, 5).join("; "));
    await close();
    if (screenshots) {
        const dark = await open(file, { colorScheme: "dark" });
        await drawAll(dark.page);
        await dark.page.evaluate(() => scrollTo(0, 0));
        await screenshot(dark.page, file, "dark");
        await dark.close();
    }
    await phone(file);
    await withoutScripts(file);
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
