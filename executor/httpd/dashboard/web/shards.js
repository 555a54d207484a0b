// The shards as cells, by owner.

import { count, number, rate, states } from "./words.js";

// shards shows cells in a listbox, describes the selected one, and fills a table while
// that is open.
export function shards({ box, detail, details, body, legend }) {
  let cells = [], layout = "", at = -1, now = null;

  const owner = (i) => (now.owner[i] < 0 ? "" : now.owners[now.owner[i]]);

  const tell = (i) => {
    const units = now.entries
      ? `${count(now.entries[i], "entry", "entries")}, ${number(now.sold[i])} sold`
      : `${number(now.available[i])} for sale, ${number(now.held[i])} held, ${number(now.sold[i])} sold`;
    const parts = [`Shard ${i}: ${states[now.state[i]]}`];
    if (now.state[i] !== "unknown") parts.push(units);
    parts.push(owner(i) ? `owned by ${owner(i)}` : "no known owner");
    if (now.load[i] !== null) parts.push(`decides ${rate(now.load[i])} requests a second`);
    if (now.waiting[i]) parts.push(`${number(now.waiting[i])} waiting`);
    if (now.busy?.includes(i)) parts.push("much busier than the others");
    return parts.join("; ") + ".";
  };

  const go = (i) => {
    if (i < 0 || i >= cells.length) return;
    cells[at]?.setAttribute("aria-selected", "false");
    at = i;
    cells[i].setAttribute("aria-selected", "true");
    box.setAttribute("aria-activedescendant", cells[i].id);
    cells[i].scrollIntoView({ block: "nearest" });
    detail.textContent = tell(i);
  };

  box.addEventListener("pointerover", (event) => {
    const cell = event.target.closest("[role=option]");
    if (cell) go(Number(cell.dataset.shard));
  });

  // shown is the order of the cells, which is by owner.
  const shown = () => [...box.querySelectorAll("[role=option]")].map((c) => Number(c.dataset.shard));
  box.addEventListener("keydown", (event) => {
    const order = shown(), place = order.indexOf(at);
    const columns = Math.max(1, Math.round(box.clientWidth / (cells[0]?.getBoundingClientRect().width + 3 || 20)));
    const next = {
      ArrowRight: place + 1, ArrowLeft: Math.max(place - 1, 0),
      ArrowDown: Math.min(place + columns, order.length - 1), ArrowUp: Math.max(place - columns, 0),
      Home: 0, End: order.length - 1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    go(order[Math.min(next, order.length - 1)]);
  });
  box.addEventListener("focus", () => at < 0 && cells.length && go(shown()[0]));

  // arrange rebuilds the cells after a change of owners.
  const arrange = () => {
    const n = now.owner.length;
    cells = Array.from({ length: n }, (_, i) => {
      const cell = document.createElement("div");
      cell.id = `shard-${i}`;
      cell.dataset.shard = i;
      cell.setAttribute("role", "option");
      cell.setAttribute("aria-selected", String(i === at));
      if (n <= 128) cell.textContent = i;
      return cell;
    });
    const of = new Map();
    now.owner.forEach((o, i) => of.set(o, [...(of.get(o) || []), cells[i]]));
    box.replaceChildren(...[...of.entries()].sort(([a], [b]) => (a < 0) - (b < 0) || String(now.owners[a]).localeCompare(now.owners[b])).map(([o, mine]) => {
      const group = document.createElement("div"), title = document.createElement("p"), grid = document.createElement("div");
      const name = o < 0 ? "No known owner" : now.owners[o];
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", `${name}, ${count(mine.length, "shard")}`);
      title.textContent = `${name} · ${count(mine.length, "shard")}`;
      title.setAttribute("aria-hidden", "true");
      grid.className = "cells";
      grid.setAttribute("role", "presentation");
      grid.append(...mine);
      group.append(title, grid);
      return group;
    }));
    box.dataset.size = n <= 8 ? "large" : n <= 128 ? "middle" : "small";
    if (at >= 0 && at < n) box.setAttribute("aria-activedescendant", cells[at].id);
  };

  const table = () => {
    if (!details.open || !now) return;
    body.replaceChildren(...now.owner.map((_, i) => {
      const row = document.createElement("tr");
      const values = [i, states[now.state[i]], owner(i) || "?", now.available[i], now.held[i], now.sold[i], now.load[i] ?? "?", now.waiting[i]];
      values.forEach((v, column) => {
        const cell = document.createElement(column ? "td" : "th");
        if (!column) cell.scope = "row";
        if (typeof v === "number") cell.className = "number";
        cell.textContent = typeof v === "number" ? (column ? rate(v) : v) : v;
        row.append(cell);
      });
      return row;
    }));
  };
  details.addEventListener("toggle", table);

  return (columns) => {
    now = columns;
    box.hidden = !now;
    if (!now) return;
    const wanted = JSON.stringify([now.owners, now.owner]);
    if (wanted !== layout) {
      layout = wanted;
      arrange();
    }
    const busy = new Set(now.busy);
    cells.forEach((cell, i) => {
      const all = now.available[i] + now.held[i] + now.sold[i];
      const share = now.state[i] === "sold-out" ? 1 : all ? now.sold[i] / all : 0;
      cell.className = now.state[i] + (busy.has(i) ? " busy" : "");
      cell.style.setProperty("--sold", `${Math.round(share * 100)}%`);
      cell.setAttribute("aria-label", tell(i));
    });
    const counts = Object.keys(states).map((s) => [s, states[s], now.state.filter((x) => x === s).length]);
    counts.push(["busy", "much busier than the others", busy.size]);
    legend.replaceChildren(...counts.filter(([, , n]) => n).map(([s, words, n]) => {
      const item = document.createElement("li"), swatch = document.createElement("span");
      swatch.className = `swatch ${s}`;
      swatch.setAttribute("aria-hidden", "true");
      item.append(swatch, ` ${words}: ${number(n)}`);
      return item;
    }));
    if (at >= 0 && at < cells.length) detail.textContent = tell(at);
    table();
  };
}
