// Receives the updates of a page: server-sent events, one a second.

const silence = 3500; // ms without an update after which the figures are old
const again = 2000;   // ms until the next attempt

// follow calls receive with each event's name and content, and setFault when updates start
// ("") or stop (the fault). A hidden page disconnects: it receives no events, and
// leaves the browser's few connections to one server to visible pages.
export function follow(url, receive, setFault) {
  let source = null, timer = 0, watchdog = 0, amiss = null;

  const report = (what) => {
    if (what !== amiss) setFault(amiss = what);
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
      report("This process sends no updates.");
      retry();
    }, silence);
  };

  const retry = () => {
    stop();
    timer = setTimeout(start, again);
  };

  // An EventSource does not report why it was refused.
  const readFault = async () => {
    const request = new AbortController();
    const late = setTimeout(() => request.abort(), silence);
    try {
      const answer = await fetch(url, { signal: request.signal, cache: "no-store" });
      if (answer.ok) return null;
      return (await answer.text()).trim() || `This process answers with status ${answer.status}.`;
    } catch {
      return "This process does not answer.";
    } finally {
      clearTimeout(late);
      request.abort();
    }
  };

  function start() {
    stop();
    const mine = source = new EventSource(url);
    alive();
    for (const kind of ["history", "snapshot", "sales"]) {
      mine.addEventListener(kind, (event) => {
        alive();
        receive(kind, JSON.parse(event.data));
        if (kind !== "history") report("");
      });
    }
    mine.addEventListener("error", async () => {
      if (mine !== source) return;
      stop();
      const why = await readFault();
      if (source || document.hidden) return;
      if (why) report(why);
      retry();
    });
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  if (!document.hidden) start();
}
