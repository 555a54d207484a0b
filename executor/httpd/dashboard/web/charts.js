// Draws charts as SVG. All colours are in the style sheet, by class.

const space = "http://www.w3.org/2000/svg";

export function draw(tag, attributes = {}, ...children) {
  const e = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// size returns how large an SVG is shown, and lets its units be pixels.
function size(svg) {
  const width = Math.max(svg.clientWidth, 200), height = Math.max(svg.clientHeight, 10);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return [width, height];
}

// bar draws parts of a whole beside each other.
export function bar(svg, parts) {
  const [width, height] = size(svg);
  const total = parts.reduce((sum, p) => sum + p.value, 0);
  let x = 0;
  svg.replaceChildren(draw("rect", { class: "ground", width, height, rx: 3 }));
  for (const p of parts) {
    if (!(p.value > 0)) continue;
    const wide = Math.max((p.value / total) * width, 2); // even one unit must be visible
    svg.append(draw("rect", { class: `fill ${p.name}`, x: Math.min(x, width - wide), width: wide, height }));
    x += wide;
  }
}

const room = { left: 52, right: 12, top: 10, bottom: 22 };

// nice returns round steps up to at least most.
function nice(highest) {
  const most = Math.max(highest, 1), rough = most / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max([1, 2, 2.5, 5, 10].find((s) => s * power >= rough) * power, 1);
  const steps = [];
  for (let v = 0; v < most + step; v += step) steps.push(v);
  return steps;
}

// frame draws axes and returns functions from time and value to coordinates.
function frame(svg, { from, to, steps, at, label }) {
  const [width, height] = size(svg);
  const right = width - room.right, foot = height - room.bottom;
  const x = (t) => room.left + ((t - from) / (to - from)) * (right - room.left);
  const y = (v) => foot - at(v) * (foot - room.top);
  svg.replaceChildren();
  for (const v of steps) {
    svg.append(
      draw("line", { class: "grid", x1: room.left, x2: right, y1: y(v), y2: y(v) }),
      draw("text", { class: "axis", x: room.left - 6, y: y(v) + 4, "text-anchor": "end" }, label(v)),
    );
  }
  for (let t = Math.ceil(from / 60000) * 60000; t <= to; t += 60000) {
    svg.append(
      draw("line", { class: "grid", x1: x(t), x2: x(t), y1: foot, y2: foot + 4 }),
      draw("text", { class: "axis", x: Math.min(Math.max(x(t), room.left + 14), right - 14), y: height - 5, "text-anchor": "middle" }, new Date(t).toISOString().slice(11, 16)),
    );
  }
  return { x, y, foot };
}

// runs splits points at gaps: a line over a gap would show unknown values.
function runs(points, from, known) {
  const all = [];
  let run = [], last = 0;
  for (const p of points) {
    if (p.at < from) continue;
    if (run.length && (!known(p) || p.at - last > 2600)) {
      all.push(run);
      run = [];
    }
    if (known(p)) {
      run.push(p);
      last = p.at;
    }
  }
  if (run.length) all.push(run);
  return all;
}

// areas draws stacked series. value returns that of a point, or undefined if unknown.
export function areas(svg, points, { from, to, series, format }) {
  const known = (p) => series[0].value(p) !== undefined;
  const parts = runs(points, from, known);
  let most = 0;
  for (const run of parts) for (const p of run) most = Math.max(most, series.reduce((sum, s) => sum + s.value(p), 0));
  const steps = nice(most);
  const top = steps[steps.length - 1];
  const { x, y } = frame(svg, { from, to, steps, at: (v) => v / top, label: format });
  for (const run of parts) {
    const below = run.map(() => 0);
    for (const s of series) {
      const up = run.map((p, i) => below[i] + s.value(p));
      if (up.some((v, i) => v > below[i])) {
        const line = run.map((p, i) => `${x(p.at).toFixed(1)},${y(up[i]).toFixed(1)}`);
        const back = run.map((p, i) => `${x(p.at).toFixed(1)},${y(below[i]).toFixed(1)}`).reverse();
        if (run.length === 1) line.push(`${(x(run[0].at) + 2).toFixed(1)},${y(up[0]).toFixed(1)}`);
        svg.append(draw("path", { class: `fill ${s.name}`, d: `M${line.join("L")}L${back.join("L")}Z` }));
      }
      up.forEach((v, i) => (below[i] = v));
    }
  }
}

// lines draws series as lines on a logarithmic scale.
export function lines(svg, points, { from, to, series, format }) {
  let least = Infinity, most = 0;
  for (const p of points) {
    if (p.at < from) continue;
    for (const s of series) {
      const v = s.value(p);
      if (v > 0) [least, most] = [Math.min(least, v), Math.max(most, v)];
    }
  }
  if (!most) [least, most] = [1, 1];
  const low = Math.floor(Math.log10(least)), high = Math.max(Math.ceil(Math.log10(most)), low + 1);
  const steps = [];
  for (let e = low; e <= high; e++) steps.push(10 ** e);
  const { x, y, foot } = frame(svg, { from, to, steps, at: (v) => (Math.log10(v) - low) / (high - low), label: format });
  for (const s of series) {
    for (const run of runs(points, from, (p) => s.value(p) > 0)) {
      const line = run.map((p) => `${x(p.at).toFixed(1)},${Math.min(y(s.value(p)), foot).toFixed(1)}`);
      if (line.length === 1) line.push(`${(x(run[0].at) + 2).toFixed(1)},${y(s.value(run[0])).toFixed(1)}`);
      svg.append(draw("path", { class: `stroke ${s.name}`, d: `M${line.join("L")}` }));
    }
  }
}
