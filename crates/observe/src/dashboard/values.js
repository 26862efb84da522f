// What is told, made into numbers: rates of counters, quantiles of histograms, and their texts.

// So many seconds of what was told are kept: what figures and tables show is of them.
const KEPT_SECONDS = 10;

// What a server told, one after the other, of one process.
export class Samples {
    #kept = [];
    #most = new Map();

    // Whether the server is another than before, whose counters began anew.
    add(told) {
        const last = this.#kept.at(-1);
        const isAnother = last !== undefined && last.started !== told.started;
        if (isAnother) {
            this.#kept = [];
            this.#most.clear();
        } else if (last !== undefined && told.at - last.at > KEPT_SECONDS) {
            // Nobody asked for a while: what came meanwhile is not of the last seconds.
            this.#kept = [];
        }
        const values = new Map();
        for (const panel of told.panels) {
            for (const [key, value] of keyed(panel)) {
                values.set(key, value);
                if (value.most !== undefined) {
                    this.#most.set(key, Math.max(this.#most.get(key) ?? 0, value.most));
                }
            }
        }
        const { at, started, histograms } = told;
        this.#kept.push({ at, started, histograms, values });
        while (this.#kept.length > 2 && at - this.#kept[1].at >= KEPT_SECONDS) {
            this.#kept.shift();
        }
        return isAnother;
    }

    // A pair of what was told last and before: just before, or as long before as is kept. What has
    // come since is there from when this is told of it.
    #between(justNow, has) {
        const last = this.#kept.at(-1);
        const before = justNow ? this.#kept.at(-2) : this.#kept.find(has);
        return before === undefined || before === last ? undefined : [last, before];
    }

    // The number to show for a value: of what came since it was told before, or in the last
    // seconds. Null where there is none.
    number(key, justNow = false) {
        const value = this.#kept.at(-1)?.values.get(key);
        if (value === undefined) {
            return null;
        }
        const [kind, of] = Object.entries(value)[0];
        switch (kind) {
            case "now":
                return of;
            case "most":
                return this.#most.get(key);
            case "share":
                return of[0];
        }
        const has = ({ values }) => values.get(key)?.[kind] !== undefined;
        const pair = this.#between(justNow, has);
        if (pair === undefined || !has(pair[1])) {
            return null;
        }
        const before = pair[1].values.get(key);
        switch (kind) {
            case "rate":
                return Math.max(0, of - before.rate) / (pair[0].at - pair[1].at);
            case "ratio": {
                const [more, times] = [of[0] - before.ratio[0], of[1] - before.ratio[1]];
                return times > 0 && more >= 0 ? more / times : null;
            }
            case "quantile":
                return quantile(of[0], this.distribution(of[1], justNow));
        }
        return null;
    }

    // How many values came to each bucket of a histogram: [upper bound, number, lower bound] each.
    distribution(name, justNow = false) {
        const pair = this.#between(justNow, ({ histograms }) => name in histograms);
        if (pair === undefined) {
            return [];
        }
        const before = new Map(pair[1].histograms[name] ?? []);
        const buckets = pair[0].histograms[name] ?? [];
        const more = buckets.map(([bound, count, lower]) => [
            bound, count - (before.get(bound) ?? 0), lower,
        ]);
        return more.filter(([, count]) => count > 0);
    }

    // By how much a counter went up in the last seconds: the value is a rate.
    more(key) {
        const pair = this.#between(false, ({ values }) => values.has(key));
        const [now, before] = (pair ?? []).map((sample) => sample.values.get(key)?.rate);
        return now === undefined || before === undefined ? 0 : Math.max(0, now - before);
    }
}

// All values of a panel, each with a key that is its own and stays.
function* keyed(panel) {
    for (const [index, part] of panel.parts.entries()) {
        const key = `${panel.id}/${index}`;
        for (const { label, value } of part.figures ?? []) {
            yield [`${key}/${label}`, value];
        }
        for (const [label, value] of part.chart?.lines ?? []) {
            yield [`${key}/${label}`, value];
        }
        for (const [label, rate] of part.bars?.[1] ?? []) {
            yield [`${key}/${label}`, { rate }];
        }
        for (const row of part.table?.rows ?? []) {
            for (const [column, value] of row.entries()) {
                yield [`${key}/${row[0].text}/${column}`, value];
            }
        }
    }
}

// Below which value a part of them lies, if each bucket's are evenly between its bounds. Where
// bounds are whole, values are, too: they count something.
function quantile(part, buckets) {
    let left = part * buckets.reduce((sum, [, count]) => sum + count, 0);
    for (const [bound, count, lower] of buckets) {
        if (left <= count) {
            if (bound === null) {
                return Infinity;
            }
            const value = lower + (bound - lower) * (left / count);
            return Number.isInteger(bound) ? Math.ceil(value) : value;
        }
        left -= count;
    }
    return null;
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ROUNDED = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

function rounded(number) {
    return Math.abs(number) >= 100 ? WHOLE.format(number) : ROUNDED.format(number);
}

function scaled(number, units) {
    const [, unit, scale] = units.find(([from]) => number >= from) ?? units.at(-1);
    return `${rounded(number / scale)} ${unit}`;
}

const TIMES = [
    [86400, "d", 86400], [3600, "h", 3600], [120, "min", 60], [1, "s", 1], [1e-3, "ms", 1e-3],
    [0, "\u00b5s", 1e-6],
];
const SIZES = [
    [2 ** 40, "TiB", 2 ** 40], [2 ** 30, "GiB", 2 ** 30], [2 ** 20, "MiB", 2 ** 20],
    [2 ** 10, "KiB", 2 ** 10], [0, "B", 1],
];

// A number as it is shown: in this unit, or as a dash where there is none.
export function text(number, unit) {
    if (number === null || number === undefined) {
        return "\u2013";
    }
    if (number === Infinity) {
        return "beyond measure";
    }
    switch (unit) {
        case "per_second":
            return `${rounded(number)} /s`;
        case "seconds":
            return number === 0 ? "0 s" : scaled(number, TIMES);
        case "bytes":
            return scaled(number, SIZES);
        case "part":
            return `${rounded(number * 100)} %`;
        default:
            return rounded(number);
    }
}
