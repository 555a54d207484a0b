// The page of one sale.

import { areas, bar, lines } from "./charts.js";
import { follow } from "./follow.js";
import { shards } from "./shards.js";
import { clock, count, decimal, groupOf, groups, hours, millis, moment, number, phase, problem, rate, span, stages, stamp } from "./words.js";

const remembered = 30 * 60 * 1000;
const byId = (id) => document.getElementById(id);
const text = (id, words) => {
  if (byId(id).textContent !== words) byId(id).textContent = words;
};

let points = [];     // of the last minutes, from the server
let snapshot = null; // the newest
let receivedAt = 0;  // when it arrived, by this page's clock
let amiss = null;    // why there is no update; "": there is

// serverNow is the server's time: that of the newest update, plus the time since then.
const serverNow = () => Date.parse(snapshot.at) + (performance.now() - receivedAt);

const showShards = shards({
  box: byId("shards"), detail: byId("shard-text"), details: byId("shards-details"),
  body: byId("shards-table").tBodies[0], legend: byId("shards-legend"),
});

follow(location.pathname.replace(/\/$/, "") + "/events", receive, setFault);
setInterval(tick, 1000);
addEventListener("resize", () => snapshot && charts());
byId("reach").addEventListener("change", () => snapshot && charts());

function receive(kind, data) {
  if (kind === "history") {
    points = data;
    return;
  }
  snapshot = data;
  receivedAt = performance.now();
  if (!points.length || points[points.length - 1].at < data.point.at) points.push(data.point);
  points = points.filter((p) => p.at >= data.point.at - remembered);
  show();
}

function setFault(what) {
  amiss = what;
  document.body.classList.toggle("old", what !== "");
  tick();
}

// tick shows what changes with time alone.
function tick() {
  const live = byId("live");
  live.className = amiss === "" ? "live on" : "live off";
  if (!snapshot) text("live-text", amiss ? "Not connected" : "Connecting…");
  else if (amiss === "") text("live-text", `Live, ${clock(new Date(snapshot.at))}`);
  else text("live-text", `As of ${clock(new Date(snapshot.at))}`);
  banners();
  if (snapshot) {
    const words = snapshot.away ? "" : hours(snapshot.sale, new Date(serverNow()));
    text("hours", amiss === "" ? words : "");
  }
  announce();
}

// announce reports changes to a screen reader: a new phase, updates that stop or start.
let announced = "";
function announce() {
  let now = "";
  if (amiss) now = `No update. ${amiss}`;
  else if (snapshot) now = `${document.querySelector("h1").textContent}: ${phase(snapshot)[0]}.${snapshot.unready ? " This process is not ready." : ""}`;
  if (now && now !== announced) text("announcement", announced = now);
}

function banners() {
  const all = [];
  if (amiss) {
    const since = snapshot ? `No update since ${stamp(new Date(snapshot.at))}, ${span(serverNow() - Date.parse(snapshot.at))} ago. ` : "";
    all.push(["bad", `${since}${amiss} ${snapshot ? "The figures are of that time. " : ""}The page retries every two seconds.`]);
  }
  if (snapshot && amiss === "") {
    const s = snapshot;
    const stalled = !s.away && s.sale.phase === "stalled";
    const why = s.unready && `this process is not ready since ${clock(new Date(s.unready.since))}: ${s.unready.why}.`;
    if (s.away) all.push(["bad", `The state of the whole sale is unknown here since ${clock(new Date(s.away.since))}.`]);
    if (stalled) all.push(["bad", `The sale is open, but no claim can be sold${why ? `: ${why}` : "."}`]);
    else if (why) all.push([s.away ? "bad" : "warn", why[0].toUpperCase() + why.slice(1)]);
    for (const p of s.sale.problems || []) {
      if (!why?.includes(p.message)) all.push([p.level === "error" ? "bad" : "warn", problem(p)]);
    }
    const owed = s.sale.holds ? s.sale.holds.refundsDue - s.sale.holds.returned : 0;
    if (owed) all.push(["warn", `${count(owed, "payment")} must be paid back.`]);
    if (s.sale.paymentCheck?.failingSince) all.push(["warn", `The payment service has given no usable answer since ${stamp(moment(s.sale.paymentCheck.failingSince))}: ${s.sale.paymentCheck.error}.`]);
  }
  if (changed(byId("banners"), all)) byId("banners").replaceChildren(...all.map(([kind, words]) => element("p", { className: `banner ${kind}` }, words)));
}

// changed reports whether an element shows something else than data, and records data as shown.
function changed(box, data) {
  const wanted = JSON.stringify(data), is = box.dataset.shown !== wanted;
  box.dataset.shown = wanted;
  return is;
}

function element(tag, properties = {}, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}

// facts fills a list of names and values, without empty values.
function facts(id, all) {
  const list = all.filter(([, v]) => v !== undefined && v !== null && v !== "");
  if (changed(byId(id), list)) byId(id).replaceChildren(...list.map(([name, value, kind]) =>
    element("div", { className: kind || "" }, element("dt", {}, name), element("dd", {}, value))));
}

// rows fills a table; a cell is its text, or its text and classes.
function rows(id, all) {
  if (changed(byId(id), all)) byId(id).tBodies[0].replaceChildren(...all.map((row) => element("tr", {}, ...row.map((cell, i) => {
    const [words, classes] = Array.isArray(cell) ? cell : [cell, ""];
    return element(i ? "td" : "th", i ? { className: classes } : { className: classes, scope: "row" }, String(words));
  }))));
}

function show() {
  const sale = snapshot.sale, [words, kind] = phase(snapshot);
  text("phase-text", words);
  byId("phase").className = `phase ${kind}`;
  for (const e of document.querySelectorAll("[data-part=process]")) if (snapshot.process) e.textContent = snapshot.process;
  for (const e of document.querySelectorAll("[data-needs=units]")) e.classList.toggle("old", Boolean(snapshot.away));
  facts("about", Object.entries(snapshot.about).map(([key, value]) => [key[0].toUpperCase() + key.slice(1), String(value)]));
  units();
  charts();
  outcomes();
  shardsPanel();
  processes(sale);
  nodes(sale);
  self();
  holds(sale);
  drawing(sale);
  packets(sale);
}

// standing is the newest point with figures of units, which may be old.
const standing = () => points.findLast((p) => p.available !== undefined);

function units() {
  const sale = snapshot.sale, p = standing();
  const where = "Of the whole sale, as of the last report of each shard to this process";
  if (!p) {
    text("units-of", "The units are unknown.");
    text("units-text", "");
    text("pace", "");
    byId("bar").replaceChildren();
    facts("tiles", []);
    document.title = `${phase(snapshot)[0]} · ${sale.sale}`;
    return;
  }
  text("units-of", snapshot.away ? `${where}. The figures are as of ${stamp(new Date(p.at))}; the current ones are unknown.` : `${where}.`);
  const stock = p.available + p.held + p.sold + p.inFlight;
  const entering = p.entries !== undefined && !p.sold && !p.held; // into a draw that has given nothing yet
  facts("tiles", [
    ["Entries", p.entries === undefined ? "" : number(p.entries), "tile entries"],
    ["To be won", entering ? number(stock) : "", "tile"],
    ["For sale", entering ? "" : number(p.available), "tile available"],
    ["Held", p.held || sale.holds && !entering ? number(p.held) : "", "tile held"],
    ["In transfer", p.inFlight ? number(p.inFlight) : "", "tile inFlight"],
    ["Sold", entering ? "" : number(p.sold), "tile sold"],
    ["Stock", entering ? "" : number(stock), "tile"],
  ]);
  byId("bar").classList.toggle("none", entering);
  bar(byId("bar"), entering ? [] : [
    { name: "sold", value: p.sold }, { name: "held", value: p.held }, { name: "inFlight", value: p.inFlight }, { name: "available", value: p.available },
  ]);
  if (entering) text("units-text", `${decimal(p.entries / Math.max(stock, 1))} entries for each unit.`);
  else text("units-text", stock ? `${percent(p.sold, stock)} of ${count(stock, "unit")} sold${p.held ? `, ${percent(p.held, stock)} held` : ""}${p.inFlight ? `, ${percent(p.inFlight, stock)} in transfer` : ""}, ${percent(p.available, stock)} for sale.` : "The sale has no units.");
  text("pace", snapshot.away || sale.phase !== "open" ? "" : pace(p));
  document.title = `${phase(snapshot)[0]} · ${entering ? count(p.entries, "entry", "entries") : `${number(p.available)} for sale`} · ${sale.sale}`;
}

function percent(part, of) {
  const share = (100 * part) / of;
  if (part && share < 0.1) return "less than 0.1%";
  if (part < of && share > 99.9) return "more than 99.9%";
  return `${decimal(share)}%`;
}

// pace describes how fast units were taken in the last ten seconds.
function pace(p) {
  const before = points.find((q) => q.at >= p.at - 10500 && q.sold !== undefined);
  if (!before || p.at - before.at < 2000) return "";
  const taken = (p.sold + p.held - before.sold - before.held) / ((p.at - before.at) / 1000);
  if (taken <= 0 || !p.available) return "";
  return `${rate(taken)} units a second were taken in the last ten seconds; at this pace the last one goes in ${span((p.available / taken) * 1000)}.`;
}

const charted = (p, name) => (p.available === undefined ? undefined : p[name]);

function charts() {
  const to = Date.parse(snapshot.at), from = to - Number(byId("reach").value) * 60 * 1000;
  const now = standing(), entering = now?.entries !== undefined && !now.sold && !now.held;
  areas(byId("stock"), points, {
    from, to, format: short,
    series: (entering ? ["entries"] : ["sold", "held", "inFlight", "available"]).map((name) => ({ name, value: (p) => charted(p, name) })),
  });
  text("stock-text", stockText(from));
  const sum = (p, of) => Object.entries(p.answers).reduce((n, [outcome, r]) => n + (groupOf(outcome) === of ? r : 0), 0);
  areas(byId("answers"), points, {
    from, to, format: short,
    series: groups.map((g) => ({ name: g.name, value: (p) => (p.answers ? sum(p, g) : undefined) })),
  });
  lines(byId("took"), points, {
    from, to, format: millis,
    series: [{ name: "p99", value: (p) => p.p99 }, { name: "p50", value: (p) => p.p50 }],
  });
  const p = snapshot.point;
  if (p.p50 === undefined) text("took-text", p.answers ? "No claim was answered in the last second." : "");
  else text("took-text", `In the last second: half within ${millis(p.p50)} (solid line), 99% within ${millis(p.p99)} (dashed).`);
  const all = p.answers && Object.values(p.answers).reduce((n, r) => n + r, 0);
  const loads = (snapshot.sale.shards ?? []).map((s) => s.load).filter((l) => l !== undefined);
  const whole = loads.length ? ` All processes together decided ${rate(loads.reduce((n, l) => n + l, 0))} requests a second in the last five seconds.` : "";
  text("answers-text", (all === undefined ? "" : `${rate(all)} answers in the last second.`) + whole);
}

const short = (n) => (n >= 1e6 ? `${decimal(n / 1e6)}M` : n >= 10000 ? `${decimal(n / 1e3)}k` : decimal(n));

function stockText(from) {
  const p = standing();
  if (!p || snapshot.away) return "";
  const then = points.find((q) => q.at >= from && q.sold !== undefined) ?? p;
  if (p.at - then.at < 1000) return `Recording since ${clock(new Date(then.at))}.`;
  if (p.entries !== undefined && !p.sold && !p.held) return `${count(p.entries - then.entries, "entry", "entries")} in the last ${span(p.at - then.at)}.`;
  const more = p.sold - then.sold;
  return `${more >= 0 ? count(more, "unit") + " sold" : count(-more, "unit") + " returned"} in the last ${span(p.at - then.at)}.`;
}

function outcomes() {
  const now = snapshot.point.answers;
  const names = Object.keys(snapshot.answers).sort((a, b) => groups.indexOf(groupOf(a)) - groups.indexOf(groupOf(b)) || snapshot.answers[b] - snapshot.answers[a]);
  const table = byId("outcomes");
  if (!changed(table, [names, now, snapshot.answers])) return;
  table.hidden = !names.length;
  byId("outcomes-none").hidden = names.length > 0;
  table.tBodies[0].replaceChildren(...names.map((name) => {
    const group = groupOf(name);
    return element("tr", {},
      element("th", { scope: "row" }, swatch(group.name), ` ${name} `, element("span", { className: "quiet" }, group.label)),
      element("td", { className: "number" }, now ? rate(now[name] || 0) : "?"),
      element("td", { className: "number" }, number(snapshot.answers[name])));
  }));
}

function swatch(name) {
  const s = element("span", { className: `swatch ${name}` });
  s.setAttribute("aria-hidden", "true");
  return s;
}

function shardsPanel() {
  const all = snapshot.sale.shards ?? [];
  showShards(snapshot.sale);
  byId("shard-text").hidden = !all.length;
  byId("shards-details").hidden = !all.length;
  const owners = new Set(all.map((s) => s.owner).filter(Boolean)).size;
  text("shards-text", all.length
    ? `${count(all.length, "shard")}, owned by ${owners ? count(owners, "process", "processes") : "no known process"}. A cell fills as its shard sells.`
    : "The shards are unknown.");
}

// hasRate reports whether the request rate of a process is known.
const hasRate = (p) => (p.up || p.here) && p.requests !== undefined;

function processes(sale) {
  const all = sale.processes || [];
  const states = { serving: "serving", standby: "standby", draining: "draining", unable: "unable: its clock is wrong" };
  rows("processes", all.map((p) => [
    [p.here ? `${p.address} (this one)` : p.address, ""],
    p.up || p.here ? [states[p.state] || p.state, p.state === "unable" ? "bad" : ""] : ["not reached", "bad"],
    [p.shards === undefined ? "?" : p.shards === p.assigned ? number(p.shards) : `${number(p.shards)} of ${number(p.assigned)} assigned`, "number"],
    [hasRate(p) ? rate(p.requests) : "?", "number"],
    [!hasRate(p) || p.forwarded === undefined ? "?" : p.requests ? `${number(Math.min((100 * p.forwarded) / p.requests, 100))}%` : "-", "number"],
    [p.version || "?", ""],
  ]));
  byId("processes").hidden = !all.length;
  byId("processes-none").hidden = all.length > 0;
  const moves = sale.moves || [], most = 20;
  text("moves-text", moves.length ? `${count(moves.length, "shard")} ${moves.length === 1 ? "is" : "are"} not at the assigned process${moves.length > most ? `; the first ${most} are shown` : ""}.` : "Every shard is at its assigned process, as known to this process.");
  byId("moves").hidden = !moves.length;
  rows("moves", moves.slice(0, most).map((m) => [[m.shard, "number"], m.from || "no owner", m.to, stages[m.stage] || m.stage]));
}

function nodes(sale) {
  const all = sale.nodes || [];
  const voting = all.filter((n) => n.up && !n.votesFrom).length;
  const has = 2 * voting > all.length;
  text("nodes-text", all.length ? `${voting} of ${count(all.length, "lock node")} ${voting === 1 ? "votes" : "vote"}${has ? "" : ": without a majority no lease can be acquired or renewed"}.` : "The lock nodes are unknown.");
  byId("nodes-text").className = all.length && !has ? "bad" : "";
  byId("nodes").hidden = !all.length;
  rows("nodes", all.map((n) => {
    const since = moment(n.since) ? stamp(moment(n.since)) : "?";
    if (!n.up) return [n.name, [`down: ${n.error || "no answer"}`, "bad"], since];
    const votes = moment(n.votesFrom);
    return votes ? [n.name, [`lost its memory, votes again at ${stamp(votes)}`, "bad"], since] : [n.name, "votes", since];
  }));
}

function self() {
  const s = snapshot, problems = s.sale.problems || [], me = (s.sale.processes || []).find((p) => p.here);
  facts("self", [
    ["Address", s.process],
    ["Version", me?.version],
    ["Ready", s.unready ? `no: ${s.unready.why}` : "yes", s.unready ? "bad" : ""],
    ...problems.map((p) => ["Problem", problem(p), "bad"]),
    ["Ledger", problems.some((p) => ["ledger_unread", "shards_stalled"].includes(p.kind)) ? "" : s.sale.shards?.length && s.sale.shards.every((x) => x.state !== "unknown") ? "answers for all shards" : "unknown for some shards"],
    ["Run", s.sale.uid],
    ["Generation", s.sale.generation || ""],
    ["Limit per user", s.sale.perUserLimit ? count(s.sale.perUserLimit, "unit") : ""],
  ]);
}

function holds(sale) {
  const h = sale.holds;
  byId("holds-panel").hidden = !h;
  if (!h) return;
  const next = moment(h.nextRelease);
  facts("holds", [
    ["Open", number(h.open)],
    ["Next release", !next ? "none" : next > Date.parse(snapshot.at) ? `in ${span(next - Date.parse(snapshot.at))}, at ${clock(next)}` : `due since ${clock(next)}`],
    ["Confirmed", number(h.confirmed)],
    ["Expired", number(h.expired)],
    ["Cancelled", number(h.cancelled)],
    ["Refunded", number(h.refunded)],
    ["Sold to late payments", number(h.resold)],
    ["Payments to pay back", number(h.refundsDue - h.returned), h.refundsDue > h.returned ? "bad" : ""],
    ["Payments paid back", number(h.returned)],
    ["Checked with the payment service", sale.paymentCheck ? count(sale.paymentCheck.watched, "claim") : ""],
  ]);
}

function drawing(sale) {
  const d = sale.draw;
  byId("draw-panel").hidden = !d;
  if (!d) return;
  facts("draw", [
    ["State", d.complete ? "drawn, all ranks are published" : d.revealed ? "drawn, its ranks are being published" : d.root ? "entries are closed, the draw is not revealed" : "takes entries, or waits for its close"],
    ["Entries", number(d.entries)],
    ["Winners", number(d.winners)],
    ["Substitutes", number(d.substitutes)],
    ["Ranks published", number(d.ranks || 0)],
    ["Lapsed awards", number(d.lapsed)],
    ["Commitment", d.commitment],
  ]);
}

function packets(sale) {
  byId("packets-panel").hidden = !sale.lists && !sale.packets;
  if (sale.packets && !sale.lists) text("packets-h", "Red packets");
  facts("packets", [
    ["Money in all packets", sale.packets ? `${sale.packets.total} ${sale.packets.currency}` : ""],
    ["Lists on", sale.lists ? number(sale.lists.on) : ""],
    ["Lists off", sale.lists ? number(sale.lists.off) : ""],
    ["Grabs not yet logged", sale.lists ? number(sale.lists.undrained) : ""],
  ]);
}
