// Charts: lines of SVG over the last minutes. Labels are text of the page, beside the lines, so
// that they keep their size whatever the chart's is.
//
// Who does not see the lines has the same in words: how much each is now, and was at least and at
// most.

import { text } from "./values.js";

// What a chart goes back.
export const SECONDS = 180;
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [SECONDS, 100];

export function element(name, parent, attributes = {}) {
    const made = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) {
        made.setAttribute(attribute, value);
    }
    parent?.append(made);
    return made;
}

// Shows a text, without touching what is as it was: an alarm is read out when it changes.
export function show(node, words) {
    if (node.textContent !== words) {
        node.textContent = words;
    }
}

function drawn(name, parent, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [attribute, value] of Object.entries(attributes)) {
        made.setAttribute(attribute, value);
    }
    parent.append(made);
    return made;
}

// The least of 1, 2, 5, 10, 20 ... that is at least this; of bytes, the least power of two.
function roundUp(number, unit) {
    if (!(number > 0)) {
        return 1;
    }
    if (unit === "bytes") {
        return 2 ** Math.ceil(Math.log2(number));
    }
    const ten = 10 ** Math.floor(Math.log10(number));
    return ten * [1, 2, 5, 10].find((step) => step * ten >= number * (1 - 1e-9));
}

export class Chart {
    #key;
    #unit;
    #title;
    #lines;
    #svg;
    #top;

    constructor(parent, key, { title, unit, lines }) {
        [this.#key, this.#unit, this.#title] = [key, unit, title];
        const figure = element("figure", parent);
        element("h3", figure).textContent = title;
        const plot = element("div", figure, { class: "plot" });
        this.#svg = drawn("svg", plot, {
            viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
        });
        this.#top = element("span", plot, { class: "top", "aria-hidden": "true" });
        const ends = element("div", figure, { class: "ends", "aria-hidden": "true" });
        element("span", ends).textContent = `${SECONDS / 60} min ago`;
        element("span", ends).textContent = "now";
        const legend = element("ul", figure, { class: "legend" });
        this.#lines = lines.map(([label], index) => {
            const style = { class: `line-${index + 1}` };
            const item = element("li", legend);
            const swatch = drawn("svg", item, { viewBox: "0 0 28 8", "aria-hidden": "true" });
            drawn("line", swatch, { x1: 0, y1: 4, x2: 28, y2: 4, ...style });
            item.append(`${label} `);
            const shown = element("b", item);
            return { label, shown, points: [], pieces: [], style };
        });
    }

    // Takes the numbers of now, and draws what there is.
    update(samples, at, isAnother) {
        for (const line of this.#lines) {
            const number = samples.number(`${this.#key}/${line.label}`, true);
            line.shown.textContent = text(number, this.#unit);
            if (isAnother) {
                line.points.push({ at, number: null });
            }
            line.points.push({ at, number: Number.isFinite(number) ? number : null });
            // Of another machine, or before this one began anew, are those that are to come.
            while (line.points[0].at < at - SECONDS || line.points[0].at > at) {
                line.points.shift();
            }
        }
        const numbers = this.#lines.flatMap(({ points }) => points.map(({ number }) => number));
        const most = numbers.reduce((most, number) => Math.max(most, number), 0);
        const top = roundUp(most, this.#unit);
        this.#top.textContent = text(top, this.#unit);
        for (const line of this.#lines) {
            this.#draw(line, at, top);
        }
        this.#svg.setAttribute("aria-label", this.#words());
    }

    // A line has a piece for each time that there were numbers without a gap.
    #draw(line, now, top) {
        const pieces = [[]];
        let before = -Infinity;
        for (const { at, number } of line.points) {
            if (number === null || at - before > 5) {
                pieces.push([]);
            }
            if (number !== null) {
                const [x, y] = [WIDTH - (now - at), HEIGHT - (number / top) * HEIGHT];
                pieces.at(-1).push(`${x.toFixed(1)},${y.toFixed(1)}`);
            }
            before = at;
        }
        // A single point is drawn as a short line.
        const shown = pieces.filter((points) => points.length > 0);
        while (line.pieces.length < shown.length) {
            line.pieces.push(drawn("polyline", this.#svg, line.style));
        }
        for (const piece of line.pieces.splice(shown.length)) {
            piece.remove();
        }
        for (const [index, points] of shown.entries()) {
            const [x, y] = points[0].split(",");
            const all = points.length > 1 ? points : [`${x - 0.5},${y}`, points[0]];
            line.pieces[index].setAttribute("points", all.join(" "));
        }
    }

    #words() {
        const each = this.#lines.map(({ label, points }) => {
            const numbers = points.map(({ number }) => number).filter((it) => it !== null);
            if (numbers.length === 0) {
                return `${label}: nothing yet`;
            }
            const least = text(Math.min(...numbers), this.#unit);
            const most = text(Math.max(...numbers), this.#unit);
            const now = text(points.at(-1).number, this.#unit);
            return `${label}: now ${now}, from ${least} to ${most}`;
        });
        return `${this.#title}, last ${SECONDS / 60} minutes. ${each.join("; ")}`;
    }
}
