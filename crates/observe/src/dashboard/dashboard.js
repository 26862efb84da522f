// The dashboard's page: asks the server each second, and shows what it tells.
//
// It goes on asking where the server does not answer, says so, and goes on when it is back. A page
// that nobody sees asks for nothing.

import { element, show } from "./charts.js";
import { Panel } from "./parts.js";
import { Samples, text } from "./values.js";

const EVERY_MS = 1000;
const TIMEOUT_MS = 5000;

const byId = (id) => document.getElementById(id);
const [server, state, hint, calm, alarm] = ["server", "state", "hint", "calm", "alarm"].map(byId);
const [contents, main, pause] = ["contents", "panels", "pause"].map(byId);

const samples = new Samples();
const panels = new Map();
let timer;
let isAsking = false;
let isPaused = false;
let goneSince = null;
// That of the server which this page is of.
let version = null;

function sound(alarms) {
    const isAlarmed = alarms.length > 0;
    document.body.classList.toggle("alarmed", isAlarmed);
    show(calm, isAlarmed ? "" : "\u2713 Nothing needs attention.");
    show(alarm, isAlarmed ? `\u26a0 ${alarms.join("; ")}` : "");
    document.title = `${isAlarmed ? "\u26a0 " : ""}${server.textContent}`;
}

function update(told) {
    show(server, told.server);
    show(state, `${told.state}, up for ${text(told.up, "seconds")}, version ${told.version}`);
    hint.hidden = told.hint === null;
    show(hint, told.hint ?? "");
    sound(told.alarms);
    // One whose threads do not answer has none: what it told before stays, and is marked as old.
    document.body.classList.toggle("stale", told.panels.length === 0);
    if (told.panels.length > 0) {
        draw(told);
    }
}

function draw(told) {
    const isAnother = samples.add(told);
    const ids = told.panels.map(({ id }) => id);
    if (ids.join() !== [...panels.keys()].join()) {
        panels.forEach((panel) => panel.remove());
        panels.clear();
        contents.replaceChildren();
        for (const panel of told.panels) {
            panels.set(panel.id, new Panel(main, panel));
            element("a", contents, { href: `#${panel.id}` }).textContent = panel.title;
        }
    }
    for (const panel of told.panels) {
        panels.get(panel.id).update(panel, samples, told.at, isAnother);
    }
}

async function ask() {
    let told;
    try {
        const answer = await fetch("/dashboard.json", { signal: AbortSignal.timeout(TIMEOUT_MS) });
        if (!answer.ok) {
            throw new Error(`status ${answer.status}`);
        }
        told = await answer.json();
    } catch (error) {
        console.warn(error);
        goneSince ??= new Date().toLocaleTimeString();
        document.body.classList.add("stale");
        sound([`The server does not answer since ${goneSince}. Asking it again each second.`]);
        return;
    }
    goneSince = null;
    version ??= told.version;
    if (told.version !== version) {
        // It may tell what this page's scripts do not know.
        location.reload();
        return;
    }
    try {
        update(told);
    } catch (error) {
        // What is wrong with this script is for its developers, and no absence of the server's.
        console.error(error);
        document.body.classList.add("stale");
        sound(["This page cannot show what the server tells. Load it again."]);
    }
}

async function goOn() {
    clearTimeout(timer);
    timer = undefined;
    if (isAsking || isPaused || document.hidden) {
        return;
    }
    const began = performance.now();
    isAsking = true;
    await ask();
    isAsking = false;
    timer = setTimeout(goOn, Math.max(0, EVERY_MS - (performance.now() - began)));
}

pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", isPaused);
    goOn();
});
document.addEventListener("visibilitychange", goOn);
goOn();
