// The shards as cells, by owner.

import { count, number, rate, states } from "./words.js";

// shards shows cells in a listbox, describes the selected one, and fills a table while
// that is open.
export function shards({ box, detail, details, body, legend }) {
  let cells = [], layout = "", at = -1, now = [], draw = false, phase = "";

  // named is the state of a shard in words. A shard sells only while the sale is open; its phase may be unknown.
  const idle = { planned: "ready to sell", scheduled: "ready to sell", paused: "ready to sell", ended: "not selling", closed: "not selling" };
  const named = (state) => (state === "selling" && idle[phase]) || states[state];

  // known reports whether the numbers of a shard are known: its owner reports them.
  const known = (s) => s.owner && s.state !== "unknown";

  // whole adds the numbers that are zero, which a shard leaves out.
  const whole = (s) => ({ available: 0, held: 0, sold: 0, entries: 0, waiting: 0, ...s });

  const describe = (i) => {
    const s = now[i];
    const parts = [`Shard ${i}: ${named(s.state)}`];
    if (known(s)) parts.push(draw
      ? `${count(s.entries, "entry", "entries")}, ${number(s.sold)} sold`
      : `${number(s.available)} for sale, ${number(s.held)} held, ${number(s.sold)} sold`);
    parts.push(s.owner ? `owned by ${s.owner}` : "no known owner");
    if (s.load !== undefined) parts.push(`decides ${rate(s.load)} requests a second`);
    if (s.waiting) parts.push(`${number(s.waiting)} waiting`);
    if (s.busy) parts.push("much busier than the others");
    return parts.join("; ") + ".";
  };

  const go = (i) => {
    if (i < 0 || i >= cells.length) return;
    cells[at]?.setAttribute("aria-selected", "false");
    at = i;
    cells[i].setAttribute("aria-selected", "true");
    box.setAttribute("aria-activedescendant", cells[i].id);
    cells[i].scrollIntoView({ block: "nearest" });
    detail.textContent = describe(i);
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
    const n = now.length;
    cells = now.map((_, i) => {
      const cell = document.createElement("div");
      cell.id = `shard-${i}`;
      cell.dataset.shard = i;
      cell.setAttribute("role", "option");
      cell.setAttribute("aria-selected", String(i === at));
      if (n <= 128) cell.textContent = i;
      return cell;
    });
    const of = Map.groupBy(cells, (_, i) => now[i].owner || "");
    box.replaceChildren(...[...of].sort(([a], [b]) => !a - !b || a.localeCompare(b)).map(([owner, mine]) => {
      const group = document.createElement("div"), title = document.createElement("p"), grid = document.createElement("div");
      const name = owner || "No known owner";
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
    if (!details.open) return;
    body.replaceChildren(...now.map((s, i) => {
      const row = document.createElement("tr");
      const units = (n) => (known(s) ? number(n) : "?");
      const values = [i, named(s.state), s.owner || "?", units(s.available), units(s.held), units(s.sold), s.load === undefined ? "?" : rate(s.load), known(s) ? number(s.waiting) : "?"];
      values.forEach((v, column) => {
        const cell = document.createElement(column ? "td" : "th");
        if (!column) cell.scope = "row";
        if (column < 1 || column > 2) cell.className = "number";
        cell.textContent = v;
        row.append(cell);
      });
      return row;
    }));
  };
  details.addEventListener("toggle", table);

  return (sale) => {
    now = (sale.shards ?? []).map(whole);
    draw = Boolean(sale.draw);
    phase = sale.phase;
    box.hidden = !now.length;
    const wanted = JSON.stringify(now.map((s) => s.owner));
    if (wanted !== layout) {
      layout = wanted;
      arrange();
    }
    cells.forEach((cell, i) => {
      const s = now[i], all = s.available + s.held + s.sold;
      const share = s.state === "sold-out" ? 1 : all ? s.sold / all : 0;
      cell.className = s.state + (s.busy ? " busy" : "");
      cell.style.setProperty("--share", `${Math.round(share * 100)}%`);
      cell.setAttribute("aria-label", describe(i));
    });
    const counts = Object.keys(states).map((state) => [state, named(state), now.filter((s) => s.state === state).length]);
    counts.push(["busy", "much busier than the others", now.filter((s) => s.busy).length]);
    legend.replaceChildren(...counts.filter(([, , n]) => n).map(([s, words, n]) => {
      const item = document.createElement("li"), swatch = document.createElement("span");
      swatch.className = `swatch ${s}`;
      swatch.setAttribute("aria-hidden", "true");
      item.append(swatch, ` ${words}: ${number(n)}`);
      return item;
    }));
    if (at >= 0 && at < cells.length) detail.textContent = describe(at);
    table();
  };
}
