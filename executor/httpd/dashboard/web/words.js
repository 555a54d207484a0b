// Names, and the form of numbers and times, on all pages.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const number = (n) => whole.format(n);
export const decimal = (n) => tenth.format(n);

// rate formats a rate per second as 'salectl status' does.
export const rate = (n) => (n < 10 ? n.toFixed(1) : number(n));

// count is such as "1 unit" and "20 units".
export const count = (n, one, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;

// clock is the time of day of a Date, and stamp the day as well. Both are UTC.
export const clock = (date) => date.toISOString().slice(11, 19);
export const stamp = (date) => date.toISOString().slice(0, 19).replace("T", " ") + " UTC";

// both is a stamp, with the reader's local time if that is not UTC.
const both = (date) => stamp(date) + (date.getTimezoneOffset() ? ` (${date.toLocaleString("sv").slice(0, 16)} here)` : "");

// span formats a duration.
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function millis(ms) {
  if (ms >= 1000) return `${tenth.format(ms / 1000)} s`;
  if (ms >= 10) return `${whole.format(ms)} ms`;
  return `${ms >= 1 ? tenth.format(ms) : ms.toPrecision(1)} ms`;
}

const far = (when) => when.getUTCFullYear() > 9000; // "never" is the end of time in some answers

export const moment = (text) => {
  if (!text) return null;
  const when = new Date(text);
  return Number.isNaN(when.getTime()) || when.getTime() <= 0 || far(when) ? null : when;
};

const phases = {
  planned: ["Not applied yet", "wait"],
  scheduled: ["Scheduled", "wait"],
  open: ["Open", "good"],
  stalled: ["Stalled: no claim can be sold", "bad"],
  paused: ["Paused", "wait"],
  ended: ["Ended", "over"],
  closed: ["Closed", "over"],
};

// phase returns the phase of a sale in words, and one of good, wait, over, bad.
export function phase(snapshot) {
  if (snapshot.away) return ["Unknown", "bad"];
  const sale = snapshot.sale;
  const [text, kind] = phases[sale.phase] || [sale.phase || "Unknown", "bad"];
  if (!sale.soldOut) return [text, kind];
  return [sale.phase === "open" ? "Sold out" : `${text}, sold out`, kind === "bad" ? kind : "over"];
}

// hours describes the next opening or close at a time. A closed sale has none.
export function hours(sale, now) {
  if (["closed", "sealed", "destroyed"].includes(sale.phase)) return "";
  const opens = moment(sale.opensAt), closes = moment(sale.closesAt);
  if (opens && now < opens) return `Opens in ${span(opens - now)}, at ${both(opens)}`;
  if (closes && now < closes) return `Closes in ${span(closes - now)}, at ${both(closes)}`;
  if (closes) return `Opening hours ended at ${both(closes)}`;
  if (opens) return `Open since ${both(opens)}`;
  return "";
}

// problem describes a fault: message, place, start, cause and remedy.
export function problem(p) {
  const parts = [p.message, p.where && `: ${p.subject} ${p.where}`, p.since && `, since ${stamp(new Date(p.since))}`, p.error && `: ${p.error}`];
  return sentence(parts.filter(Boolean).join("")) + (p.remedy ? ` ${sentence(p.remedy)}` : "");
}

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;

// Groups of outcomes, with a colour each, which is that of units with this state. The last has all
// that the others do not name.
export const groups = [
  { name: "sold", label: "Accepted", of: ["sold"] },
  { name: "held", label: "Accepted", of: ["held"] },
  { name: "entries", label: "Accepted", of: ["entered"] },
  { name: "again", label: "Repeated", of: ["replayed"] },
  { name: "gone", label: "No unit free", of: ["sold_out", "none_now", "units_taken", "not_adjacent"] },
  { name: "refused", label: "Refused", of: ["limit_reached", "not_eligible", "key_reused", "bad_request", "expired", "cancelled", "refunded", "not_drawn", "no_such_sale"] },
  { name: "hours", label: "Not on sale", of: ["not_open", "paused", "closed"] },
  { name: "amiss", label: "Not decided", of: [] },
];
export const groupOf = (outcome) => groups.find((g) => g.of.includes(outcome)) || groups[groups.length - 1];

export const states = {
  selling: "selling",
  none: "none for sale now",
  "sold-out": "sold out",
  drawing: "takes entries",
  moving: "moving",
  stalled: "stalled: the store does not answer",
  "no-lease": "not selling: its owner must not write now",
  unknown: "unknown",
};

export const stages = {
  due: "due",
  follows: "this process reads its log",
  takes: "this process waits for its lease",
  gives: "this process releases its lease",
};
