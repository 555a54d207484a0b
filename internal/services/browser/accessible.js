// Returns what keeps people from reading the page: a line for each fault.
(() => {
  const faults = [];
  const report = (what, e) => faults.push(`${what}: ${e.outerHTML.slice(0, 120)}`);
  const shown = (e) => e.checkVisibility({ visibilityProperty: true });

  if (!document.documentElement.lang) faults.push("the page has no language");
  if (!document.title) faults.push("the page has no title");
  for (const [name, n] of [["h1", 1], ["main", 1], ["body > header", 1], ["body > footer", 1]]) {
    if (document.querySelectorAll(name).length !== n) faults.push(`there is not one ${name}`);
  }
  let before = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    if (!shown(h)) continue;
    const level = Number(h.tagName[1]);
    if (level > before + 1) report("a level of headings is left out", h);
    before = level;
  }
  const ids = new Set();
  for (const e of document.querySelectorAll("[id]")) {
    if (ids.has(e.id)) report("an id is there twice", e);
    ids.add(e.id);
  }
  for (const name of ["aria-labelledby", "aria-describedby", "aria-activedescendant", "aria-controls"]) {
    for (const e of document.querySelectorAll(`[${name}]`)) {
      for (const id of e.getAttribute(name).split(" ")) if (!ids.has(id)) report(`${name} leads nowhere`, e);
    }
  }
  for (const e of document.querySelectorAll("svg")) {
    if (!shown(e) || e.getAttribute("aria-hidden") === "true") continue;
    const named = (e.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent || "").join("").trim();
    if (e.getAttribute("role") !== "img" || !(named || e.getAttribute("aria-label"))) report("a picture has no text", e);
  }
  for (const e of document.querySelectorAll("table")) {
    if (!e.caption && !e.getAttribute("aria-labelledby") && !e.getAttribute("aria-label")) report("a table has no name", e);
    for (const h of e.querySelectorAll("th")) if (!h.scope) report("a heading of a table has no scope", h);
  }
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) report("it jumps the order", e);
  for (const e of document.querySelectorAll("*")) {
    if (shown(e) && e.scrollWidth > e.clientWidth + 1 && e === document.documentElement) report("the page is wider than the window", e);
  }

  // Contrast of text, 4.5 to 1 (AA).
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const l = [r, g, b].map((v) => (v /= 255, v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
  };
  // grounds are the colours behind an element; all stops of a gradient.
  const grounds = (e) => {
    for (; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.backgroundImage !== "none") return (style.backgroundImage.match(/rgba?\([^)]*\)|color\([^)]*\)/g) || []).map(rgba);
      const color = rgba(style.backgroundColor);
      if (color[3] > 250) return [color];
    }
    return [rgba("white")];
  };
  // below is the colour of the bar of a chart that a text stands on, if it stands on one.
  const below = (e) => {
    const box = e.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
    let color = null;
    for (const bar of e instanceof SVGTextElement ? e.ownerSVGElement.querySelectorAll("rect") : []) {
      const b = bar.getBoundingClientRect(), fill = rgba(getComputedStyle(bar).fill);
      if (bar.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING && fill[3] > 250 && b.left <= x && x <= b.right && b.top <= y && y <= b.bottom) color = fill;
    }
    return color;
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || seen.has(e) || !shown(e) || e.closest(".unseen, .skip, noscript")) continue;
    seen.add(e);
    const style = getComputedStyle(e), ink = light(rgba(e instanceof SVGElement ? style.fill : style.color));
    const bar = below(e);
    for (const ground of bar ? [bar] : grounds(e)) {
      const g = light(ground), contrast = (Math.max(ink, g) + 0.05) / (Math.min(ink, g) + 0.05);
      if (contrast < 4.5) {
        report(`text has a contrast of ${contrast.toFixed(2)}`, e);
        break;
      }
    }
  }
  return faults.join("\n");
})()
