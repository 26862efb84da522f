// What panels are made of, but for charts: figures, bars and tables. Each is made once, and told
// when there is something new; all that a server says goes in as text, never as markup.

import { Chart, element, show } from "./charts.js";
import { text } from "./values.js";

function gauge(parent) {
    return element("span", element("div", parent, { class: "gauge", "aria-hidden": "true" }));
}

function fill(bar, part) {
    bar.style.width = `${(Math.min(1, Math.max(0, part)) * 100).toFixed(1)}%`;
}

class Figures {
    #key;
    #shown;

    constructor(parent, key, figures) {
        this.#key = key;
        const list = element("dl", parent);
        this.#shown = figures.map(({ label, value }) => {
            const item = element("div", list);
            element("dt", item).textContent = label;
            const words = element("dd", item);
            const number = element("span", words);
            const most = value.share === undefined ? null : element("small", words);
            return { number, most, bar: most === null ? null : gauge(item) };
        });
    }

    update(figures, samples) {
        for (const [index, { label, value, unit }] of figures.entries()) {
            const { number, most, bar } = this.#shown[index];
            const now = samples.number(`${this.#key}/${label}`);
            show(number, value.text ?? text(now, unit));
            if (most !== null) {
                show(most, ` of ${text(value.share[1], unit)}`);
                fill(bar, value.share[0] / value.share[1]);
            }
        }
    }
}

// How a whole is made up: a table with a bar in each row. A row stays once it is there: of what is
// no part any more there is none.
class Bars {
    #body;
    #rows = new Map();
    #empty;

    constructor(parent, title, what) {
        const table = element("table", parent, { class: "bars" });
        element("caption", table).textContent = title;
        const head = element("tr", element("thead", table));
        element("th", head, { scope: "col", class: "words" }).textContent = what;
        element("th", head, { scope: "col" }).textContent = "Share";
        element("td", head, { "aria-hidden": "true" });
        this.#body = element("tbody", table);
        this.#empty = element("p", parent, { class: "note" });
    }

    update(parts) {
        const all = parts.reduce((sum, [, count]) => sum + count, 0);
        const none = Array.from(this.#rows.keys(), (label) => [label, 0]);
        for (const [label, count] of new Map([...none, ...parts])) {
            if (!this.#rows.has(label)) {
                const row = element("tr", this.#body);
                element("th", row, { scope: "row" }).textContent = label;
                const number = element("td", row);
                const bar = gauge(element("td", row, { class: "bar", "aria-hidden": "true" }));
                this.#rows.set(label, { number, bar });
            }
            const { number, bar } = this.#rows.get(label);
            show(number, all === 0 ? "\u2013" : text(count / all, "part"));
            fill(bar, all === 0 ? 0 : count / all);
        }
        show(this.#empty, all === 0 ? "None in the last seconds." : "");
    }
}

// The buckets of cohorts' sizes, all of those that the page has seen used, and those between.
class Distribution {
    #bars;
    #largest = 0;
    #parent;
    #title;

    constructor(parent, title) {
        [this.#parent, this.#title] = [element("div", parent), title];
        this.#bars = new Bars(this.#parent, title, "Up to");
    }

    update(name, samples) {
        const buckets = new Map(samples.distribution(name));
        for (const bound of buckets.keys()) {
            this.#largest = Math.max(this.#largest, bound ?? 1);
        }
        const parts = [];
        for (let bound = 1; bound <= this.#largest; bound *= 2) {
            parts.push([text(bound, "count"), buckets.get(bound) ?? 0]);
        }
        if (buckets.has(null)) {
            parts.push(["more", buckets.get(null)]);
        }
        this.#bars.update(parts);
    }
}

// So many letters are on one line.
const SHORT_MAX = 24;
const isWords = (value) => value?.text !== undefined || value?.state !== undefined;

class Table {
    #key;
    #caption;
    #scroll;
    #head;
    #body;
    #rows = new Map();
    #empty;

    constructor(parent, key, { caption, columns }) {
        this.#key = key;
        // Whoever has no mouse scrolls a table that is too wide by the keys.
        this.#scroll = element("div", parent, {
            class: "scroll", tabindex: "0", role: "region", "aria-label": caption,
        });
        const table = element("table", this.#scroll);
        this.#caption = element("caption", table);
        const head = element("tr", element("thead", table));
        this.#head = columns.map(({ label }) => {
            const cell = element("th", head, { scope: "col" });
            cell.textContent = label;
            return cell;
        });
        this.#body = element("tbody", table);
        this.#empty = element("p", parent, { class: "empty" });
    }

    update({ caption, columns, rows, empty }, samples) {
        show(this.#caption, caption);
        if (this.#scroll.ariaLabel !== caption) this.#scroll.ariaLabel = caption;
        show(this.#empty, rows.length === 0 ? empty : "");
        this.#empty.hidden = rows.length > 0;
        this.#scroll.hidden = rows.length === 0;
        const named = new Set(rows.map(([name]) => name.text));
        for (const [name, { row }] of this.#rows) {
            if (!named.has(name)) {
                row.remove();
                this.#rows.delete(name);
            }
        }
        for (const [index, values] of rows.entries()) {
            const name = values[0].text;
            if (!this.#rows.has(name)) {
                this.#rows.set(name, this.#made(values));
            }
            const { row, cells } = this.#rows.get(name);
            if (this.#body.children[index] !== row) {
                this.#body.insertBefore(row, this.#body.children[index] ?? null);
            }
            for (const [column, value] of values.entries()) {
                const key = `${this.#key}/${name}/${column}`;
                this.#fill(cells[column], value, columns[column].unit, () => samples.number(key));
                if (index === 0) {
                    this.#head[column].className = isWords(value) ? "words" : "";
                }
            }
        }
    }

    #made(values) {
        const row = element("tr");
        const cells = values.map((value, column) => {
            if (column === 0) {
                return element("th", row, { scope: "row" });
            }
            return element("td", row, { class: value.text === undefined ? "" : "words" });
        });
        return { row, cells };
    }

    #fill(cell, value, unit, number) {
        if (value.state !== undefined) {
            const [isWell, word] = value.state;
            const shown = cell.firstElementChild ?? element("span", cell);
            shown.className = isWell ? "state" : "state ill";
            cell.className = "words";
            show(shown, word);
        } else {
            cell.classList.toggle("long", value.text?.length > SHORT_MAX);
            show(cell, value.text ?? text(number(), unit));
        }
    }
}

// A panel on the page: made anew where it consists of something else than before.
export class Panel {
    #id;
    #section;
    #parts = [];
    #shape;

    constructor(parent, { id, title }) {
        this.#id = id;
        this.#section = element("section", parent, { "aria-labelledby": `${id}-title`, id });
        element("h2", this.#section, { id: `${id}-title` }).textContent = title;
    }

    remove() {
        this.#section.remove();
    }

    update({ parts }, samples, at, isAnother) {
        const shape = JSON.stringify(parts.map(shapeOf));
        if (shape !== this.#shape) {
            this.#shape = shape;
            this.#section.replaceChildren(this.#section.firstElementChild);
            this.#parts = parts.map((part, index) => this.#made(part, `${this.#id}/${index}`));
            const isWide = parts.some(({ table }) => table !== undefined);
            this.#section.classList.toggle("wide", isWide);
            const charts = parts.filter(({ chart }) => chart !== undefined).length;
            this.#section.classList.toggle("broad", charts > 2 && !isWide);
        }
        for (const [index, part] of parts.entries()) {
            this.#parts[index](part, samples, at, isAnother);
        }
    }

    // What shows a part: called with each new state of it.
    #made({ figures, chart, bars, distribution, note, table }, key) {
        if (figures !== undefined) {
            const shown = new Figures(this.#section, key, figures);
            return (part, samples) => shown.update(part.figures, samples);
        }
        if (chart !== undefined) {
            const shown = new Chart(this.#section, key, chart);
            return (_, samples, at, isAnother) => shown.update(samples, at, isAnother);
        }
        if (bars !== undefined) {
            const shown = new Bars(this.#section, bars[0], "Reason");
            return (part, samples) => {
                const more = ([label]) => [label, samples.more(`${key}/${label}`)];
                shown.update(part.bars[1].map(more));
            };
        }
        if (distribution !== undefined) {
            const shown = new Distribution(this.#section, distribution[0]);
            return (part, samples) => shown.update(part.distribution[1], samples);
        }
        if (note !== undefined) {
            const shown = element("p", this.#section, { class: "note" });
            return (part) => show(shown, part.note);
        }
        const shown = new Table(this.#section, key, table);
        return (part, samples) => shown.update(part.table, samples);
    }
}

// What it takes to be shown. A figure may turn from words into a number and back: what its panel's
// charts have of the last minutes stays.
function shapeOf({ figures, chart, bars, distribution, note, table }) {
    return [
        figures?.map(({ label, value }) => [label, value.share !== undefined]),
        chart && [chart.title, chart.lines.map(([label]) => label)],
        bars?.[0],
        distribution?.[0],
        note !== undefined,
        table?.columns.map(({ label }) => label),
    ];
}
