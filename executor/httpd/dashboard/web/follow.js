// Receives the updates of a page: server-sent events, one a second.

const silence = 3500; // ms without an update after which the figures are old
const again = 2000;   // ms until the next attempt

// follow calls hear with each event's name and content, and turned when updates start
// ("") or stop (the fault). A hidden page is disconnected: it costs the server nothing, and
// leaves the browser's few connections to one server to visible pages.
export function follow(url, hear, turned) {
  let source = null, timer = 0, watchdog = 0, amiss = null;

  const say = (what) => {
    if (what !== amiss) turned(amiss = what);
  };

  const stop = () => {
    source?.close();
    source = null;
    clearTimeout(timer);
    clearTimeout(watchdog);
  };

  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => {
      say("This process sends no updates.");
      retry();
    }, silence);
  };

  const retry = () => {
    stop();
    timer = setTimeout(start, again);
  };

  // An EventSource does not report why it was refused.
  const ask = async () => {
    const asking = new AbortController();
    const late = setTimeout(() => asking.abort(), silence);
    try {
      const answer = await fetch(url, { signal: asking.signal, cache: "no-store" });
      if (answer.ok) return null;
      return (await answer.text()).trim() || `This process answers with status ${answer.status}.`;
    } catch {
      return "This process does not answer.";
    } finally {
      clearTimeout(late);
      asking.abort();
    }
  };

  function start() {
    stop();
    const mine = source = new EventSource(url);
    alive();
    for (const kind of ["history", "snapshot", "sales"]) {
      mine.addEventListener(kind, (event) => {
        alive();
        hear(kind, JSON.parse(event.data));
        if (kind !== "history") say("");
      });
    }
    mine.addEventListener("error", async () => {
      if (mine !== source) return;
      stop();
      const why = await ask();
      if (source || document.hidden) return;
      if (why) say(why);
      retry();
    });
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  if (!document.hidden) start();
}
