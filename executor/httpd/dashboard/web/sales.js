// The page of all sales of a process.

import { bar } from "./charts.js";
import { follow } from "./follow.js";
import { clock, hours, number, phase, stamp } from "./words.js";

const live = document.getElementById("live"), liveText = document.getElementById("live-text");
let latest = null;

follow("events", (_, data) => {
  latest = data;
  const words = latest.sales.map(show);
  announce(words.join(" "));
  liveText.textContent = `Live, ${clock(new Date(latest.at))}`;
}, (amiss) => {
  live.className = amiss ? "live off" : "live on";
  document.body.classList.toggle("old", Boolean(amiss));
  const banner = document.createElement("p");
  banner.className = "banner bad";
  banner.textContent = `${latest ? `No update since ${stamp(new Date(latest.at))}. ` : ""}${amiss} The page retries every two seconds.`;
  document.getElementById("banners").replaceChildren(...(amiss ? [banner] : []));
  if (amiss) {
    liveText.textContent = latest ? `As of ${clock(new Date(latest.at))}` : "Not connected";
    announce(`No update. ${amiss}`);
  }
});

let announced = "";
function announce(words) {
  if (words === announced) return;
  document.getElementById("announcement").textContent = announced = words;
}

// show updates the line of a sale and returns its phase in words.
function show(sale) {
  const item = document.querySelector(`[data-sale="${CSS.escape(sale.sale)}"]`);
  if (!item) return "";
  const part = (name) => item.querySelector(`[data-part=${name}]`);
  const [words, kind] = phase({ away: sale.outcome, sale });
  part("phase").className = `phase ${kind}`;
  part("phase").textContent = [words, sale.outcome ? "" : hours(sale, new Date(latest.at))].filter(Boolean).join(". ");
  const units = sale.outcome ? "Units: unknown here." : sale.draw
    ? `${number(sale.draw.entries)} entries for ${number(sale.draw.winners)} units.`
    : `${number(sale.available)} of ${number(sale.stock)} for sale, ${number(sale.held)} held, ${number(sale.sold)} sold.`;
  part("units").textContent = units + (sale.unready ? ` This process is not ready: ${sale.unready}.` : "");
  part("bar").setAttribute("aria-label", units);
  bar(part("bar"), sale.outcome ? [] : [
    { name: "sold", value: sale.sold }, { name: "held", value: sale.held }, { name: "inFlight", value: sale.inFlight }, { name: "available", value: sale.available },
  ]);
  return `${sale.sale}: ${words}.`;
}
