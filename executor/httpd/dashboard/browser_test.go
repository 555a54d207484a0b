package dashboard

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/internal/services/browser"
	"salectl/internal/wait"
)

// TestPagesInABrowser looks at the pages as people do.
func TestPagesInABrowser(t *testing.T) {
	w := browser.Open(t)
	for name, test := range map[string]func(*testing.T, *browser.Window){
		"scenes": scenesIn, "turns": turnsIn, "full": fullIn, "keys": keysIn, "hidden": hiddenIn, "sales": salesIn,
		"reach": reachIn, "names": namesIn, "colours": coloursIn,
	} {
		t.Run(name, func(t *testing.T) { test(t, w); browser.Go(t, w, "about:blank"); w.Calm() })
	}
}

const live = `document.querySelector("#live").className === "live on"`

// scenesIn draws sales in all states, in light and dark, and looks for what keeps people
// from reading them. The pictures are among the test's artifacts.
func scenesIn(t *testing.T, w *browser.Window) {
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		browser.Width(t, w, 1280)
		page := scenes[name]().open(t)
		browser.Go(t, w, page)
		browser.Until(t, w, live)
		for _, scheme := range []string{"light", "dark"} {
			browser.Prefer(t, w, "prefers-color-scheme", scheme)
			if faults := browser.Faults(t, w); faults != "" {
				t.Errorf("%s, %s:\n%s", name, scheme, faults)
			}
			browser.Shoot(t, w, name+"-"+scheme)
		}
		for _, fault := range unnamed(t, w) {
			t.Errorf("%s: %s", name, fault)
		}
		complaints, addresses := w.Calm()
		if len(complaints) > 0 {
			t.Errorf("%s: the page complains: %s", name, strings.Join(complaints, "\n"))
		}
		home := page[:strings.Index(page, Path)] + "/"
		if len(addresses) == 0 || slices.ContainsFunc(addresses, func(a string) bool { return !strings.HasPrefix(a, home) }) {
			t.Errorf("%s: the page of %s asks for %q", name, home, addresses)
		}
	}
	browser.Width(t, w, 390) // a telephone
	browser.Go(t, w, scenes["holds"]().open(t))
	browser.Until(t, w, live)
	if faults := browser.Faults(t, w); faults != "" {
		t.Errorf("narrow:\n%s", faults)
	}
	browser.Shoot(t, w, "narrow")
}

// unnamed are the parts of the page that a screen reader has no name for, and those that it
// does not meet.
func unnamed(t *testing.T, w *browser.Window) (faults []string) {
	t.Helper()
	roles, without := browser.Roles(t, w)
	for _, role := range without {
		faults = append(faults, "a screen reader has no name for a "+role)
	}
	for role, least := range map[string]int{"main": 1, "banner": 1, "contentinfo": 1, "status": 1, "listbox": 1, "heading": 8} {
		if roles[role] < least {
			faults = append(faults, "a screen reader meets no "+role)
		}
	}
	return faults
}

// acted is a dashboard on the host's clock of a sale that a test changes.
type acted struct {
	*Dashboard
	now  atomic.Pointer[State]
	down atomic.Bool
	url  string
}

func newActed(t *testing.T) *acted {
	a := new(acted)
	a.show(func(*State) {})
	a.Dashboard = New("10.0.0.7:8080", MostViewers, clock.System())
	a.Add(Sale{"movie", func() State { return *a.now.Load() }})
	handler := a.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.down.Load() {
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { a.Close(); server.Close() })
	a.url = server.URL
	return a
}

// show has the sale be as change makes it of one with three shards that sells.
func (a *acted) show(change func(*State)) {
	l := State{
		Sale: &api.Sale{
			SaleSummary: api.SaleSummary{Sale: "movie", Phase: "open", Stock: 300, Available: 290, Sold: 10},
			Known: api.Known{Nodes: nodes(0), Shards: []api.Shard{
				{Shard: 0, State: api.ShardSelling, Owner: "10.0.0.7:8080", Available: 90, Sold: 10},
				{Shard: 1, State: api.ShardSelling, Owner: "10.0.0.7:8080", Available: 100},
				{Shard: 2, State: api.ShardSelling, Owner: "10.0.0.8:8080", Available: 100},
			}},
		},
		Answers: map[api.Outcome]uint64{api.Sold: 10}, Took: histogram(bounds, make([]uint64, len(bounds)+1)),
	}
	change(&l)
	a.now.Store(&l)
}

// reachIn has the charts of a sale of a quarter of an hour show the last minutes, and all of it.
func reachIn(t *testing.T, w *browser.Window) {
	browser.Go(t, w, play("movie-tickets", 900, crowd(500_000, 8, owners...)).open(t))
	browser.Until(t, w, `document.querySelector("#stock-text").textContent.includes("in the last 5 min")`)
	browser.Run(t, w, `(document.querySelector("#reach").value = "30", document.querySelector("#reach").dispatchEvent(new Event("change")), "")`)
	browser.Until(t, w, `document.querySelector("#stock-text").textContent.includes("in the last 15 min")`)
}

// overflowing are the cells of tables that exceed the frame of their table, and the tables that have to scroll.
const overflowing = `[...document.querySelectorAll("table")].filter(e => e.checkVisibility()).flatMap(table => {
	const frame = table.closest(".scroll") ?? table.parentElement, edge = frame.getBoundingClientRect().right + 1;
	return [...table.querySelectorAll("th, td"), ...(frame.scrollWidth > frame.clientWidth ? [table] : [])].
		filter(e => e === table || e.getBoundingClientRect().right > edge || e.scrollWidth > e.clientWidth);
}).map(e => e.outerHTML.slice(0, 120)).join("\n")`

// namesIn has long names of hosts and versions fit into the tables of a screen of 1280 pixels.
func namesIn(t *testing.T, w *browser.Window) {
	a := newActed(t)
	browser.Width(t, w, 1280)
	a.show(func(l *State) {
		owns := 341
		for i, rate := range []float64{123456, 67.1, 0} {
			forwarded := rate / 2
			address := fmt.Sprintf("salectl-%d.salectl.shop.svc.cluster.local:8081", i)
			l.Sale.Processes = append(l.Sale.Processes, api.Process{
				Address: address, Version: "v0.0.0-20261129162001-abcdefabcdef+dirty", State: "unable", Self: i == 0, Up: true,
				Shards: &owns, Assigned: 1024, Requests: &rate, Forwarded: &forwarded,
			})
			l.Sale.Shards[i].Owner, l.Sale.Nodes[i].Name = address, fmt.Sprintf("redis-%d.redis.shop.svc.cluster.local:6379", i)
			l.Sale.Nodes[i].Up, l.Sale.Nodes[i].Error = false, "dial tcp "+l.Sale.Nodes[i].Name+": connect: connection refused"
			l.Sale.Moves = append(l.Sale.Moves, api.Move{Shard: i, From: address, To: address, Stage: api.MoveFollows})
		}
	})
	browser.Go(t, w, a.url+"/dashboard/sales/movie")
	browser.Until(t, w, live)
	browser.Run(t, w, `document.querySelector("#shards-details").open = true`)
	browser.Until(t, w, `document.querySelector("#processes").rows.length === 4 && document.querySelector("#shards-table").rows.length === 4`)
	browser.Shoot(t, w, "names")
	if cells := browser.Run(t, w, overflowing); cells != "" {
		t.Errorf("1280 pixels are too narrow for\n%s", cells)
	}
	const rows = `[...document.querySelector("#processes").tBodies[0].rows].map(row => [...row.cells].slice(2, 5).map(e => e.textContent).join(" | ")).join("\n")`
	const want = "341 of 1,024 assigned | 123,456 | 50%\n341 of 1,024 assigned | 67 | 50%\n341 of 1,024 assigned | 0.0 | -" // as 'salectl status' formats them
	if got := browser.Run(t, w, rows); got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
}

// coloursIn draws a state of units in one colour wherever it is, and another one in another.
func coloursIn(t *testing.T, w *browser.Window) {
	a := newActed(t)
	change := func(answers uint64) func(*State) {
		return func(l *State) {
			l.Sale.Available, l.Sale.Sold, l.Sale.Held, l.Sale.InFlight, l.Sale.Holds = 100, 100, 50, 50, &api.Holds{Open: 50}
			l.Sale.Shards[0].State, l.Sale.Shards[1].State = api.ShardSoldOut, api.ShardNone
			l.Answers = map[api.Outcome]uint64{}
			for _, o := range []api.Outcome{api.Sold, api.Held, api.Entered, api.Replayed, api.NoneNow, api.LimitReached, api.Paused, api.NoQuorum} {
				l.Answers[o] = answers
			}
		}
	}
	a.show(change(1))
	browser.Go(t, w, a.url+"/dashboard/sales/movie")
	browser.Until(t, w, live)
	a.show(change(100))
	browser.Until(t, w, `document.querySelectorAll("#answers path").length === 8 && document.querySelectorAll("#stock path").length === 4`)
	const colours = `(() => {
		const of = (selector, property, pseudo) => {
			const e = document.querySelector(selector);
			return e ? getComputedStyle(e, pseudo)[property] : "no " + selector;
		};
		const all = {};
		const has = (state, ...colours) => (all[state] = [...new Set(colours)].join(" and "));
		for (const state of ["sold", "held", "inFlight", "available"]) has(state,
			of(".tile." + state + " dt", "backgroundColor", "::before"), of("#bar ." + state, "fill"), of("#stock ." + state, "fill"),
			...(["sold", "held"].includes(state) ? [of("#outcomes .swatch." + state, "backgroundColor"), of("#answers ." + state, "fill")] : []),
			...({ sold: ["sold-out"], held: ["none"] }[state] ?? []).flatMap((s) => [of("#shards-legend ." + s, "borderTopColor"), of(".cells > ." + s, "borderTopColor")]));
		for (const group of ["entries", "again", "gone", "refused", "hours", "amiss"]) has(group, of("#outcomes .swatch." + group, "backgroundColor"), of("#answers ." + group, "fill"));
		return JSON.stringify(all);
	})()`
	for _, scheme := range []string{"light", "dark"} {
		browser.Prefer(t, w, "prefers-color-scheme", scheme)
		var all map[string]string
		if err := json.Unmarshal([]byte(browser.Run(t, w, colours)), &all); err != nil {
			t.Fatal(err)
		}
		states := map[string]string{}
		for state, colour := range all {
			if other := states[colour]; other != "" || !strings.HasPrefix(colour, "rgb(") || strings.Contains(colour, " and ") {
				t.Errorf("%s: the colour of %s is %s, which is that of %q", scheme, state, colour, other)
			}
			states[colour] = state
		}
		browser.Shoot(t, w, "colours-"+scheme)
	}
}

const said = `document.querySelector("#announcement").textContent`

// turnsIn follows a sale through its turns: what the page shows, and what it tells a
// screen reader.
func turnsIn(t *testing.T, w *browser.Window) {
	a := newActed(t)
	browser.Go(t, w, a.url+"/dashboard/")
	browser.Until(t, w, said+` === "movie: Open."`)
	shows := func(id, words string) {
		t.Helper()
		browser.Until(t, w, `document.querySelector("#`+id+`").innerText.replace(/\s+/g, " ").includes(`+quoted(words)+`)`)
	}
	shows("tiles", "For sale 290")
	shows("units-text", "3.3% of 300 units sold, 96.7% for sale.")
	browser.Until(t, w, `document.title === "Open · 290 for sale · movie"`)

	// Claims come.
	a.show(func(l *State) {
		l.Sale.Available, l.Sale.Sold = 200, 100
		l.Answers = map[api.Outcome]uint64{api.Sold: 100, api.LimitReached: 5}
		three, two := 3, 2
		l.Sale.Processes = []api.Process{
			{Address: "a:1", State: "serving", Self: true, Up: true, Shards: &three, Assigned: 3},
			{Address: "b:1", State: "serving", Up: true, Shards: &two, Assigned: 4},
		}
	})
	shows("tiles", "For sale 200 Sold 100")
	shows("processes", "a:1 (this one) serving 3 ?")
	shows("processes", "b:1 serving 2 of 4 assigned ?")
	shows("outcomes", "limit_reached Refused")
	browser.Until(t, w, `document.querySelector("#answers path.sold") !== null && document.querySelector("#answers path.refused") !== null`)
	if got := browser.Run(t, w, said); got != "movie: Open." {
		t.Errorf("a screen reader is told of each claim: %s", got)
	}

	// It is paused, and a hold is due.
	browser.Zone(t, w, "Asia/Shanghai")
	defer browser.Zone(t, w, "UTC")
	a.show(func(l *State) {
		l.Sale.Phase, l.Sale.ClosesAt = "paused", noon.AddDate(100, 0, 0)
		l.Sale.Holds = &api.Holds{Open: 1, NextRelease: noon}
	})
	shows("shards-legend", "ready to sell: 3")
	a.show(func(l *State) { l.Sale.Phase = "closed" })
	shows("shards-legend", "not selling: 3")
	a.show(func(l *State) {
		l.Sale.Phase, l.Sale.ClosesAt = "paused", noon.AddDate(100, 0, 0)
		l.Sale.Holds = &api.Holds{Open: 1, NextRelease: noon}
	})
	shows("holds", "Next release due since 12:00:00")
	shows("hours", "at 2126-11-11 12:00:00 UTC (2126-11-11 20:00 here)")

	// It stalls, and is not known.
	a.show(func(l *State) {
		l.Sale.Phase, l.Sale.Nodes, l.Unready = "stalled", nodes(2), "lock nodes: no majority of the lock nodes votes"
	})
	browser.Until(t, w, said+` === "movie: Stalled: no claim can be sold. This process is not ready."`)
	shows("banners", "The sale is open, but no claim can be sold: this process is not ready since")
	shows("nodes-text", "1 of 3 lock nodes votes: without a majority")

	// What is wrong stands above all, once, and with the process.
	a.show(func(l *State) {
		l.Unready = "clock: this host's clock is off: it is ahead by 1h0m0s"
		l.Sale.Problems = []api.SaleProblem{
			{Kind: "clock", Level: "warn", Message: "this host's clock is off", Error: "it is ahead by 1h0m0s", Remedy: "set it right"},
			{Kind: "shard_log_broken", Level: "error", Subject: "shards", Where: "0-1", Since: noon, Message: "a shard's log is gone", Remedy: "see what 'salectl plan' says"},
		}
	})
	const broken = "A shard's log is gone: shards 0-1, since 2026-11-11 12:00:00 UTC. See what 'salectl plan' says."
	shows("banners", broken)
	shows("self", broken)
	shows("self", "This host's clock is off: it is ahead by 1h0m0s. Set it right.")
	browser.Until(t, w, `document.querySelectorAll(".banner").length === 2 && document.querySelectorAll(".banner.bad").length === 1`)

	a.show(func(l *State) {
		l.Unready = "standby: starting"
		l.Sale = &api.Sale{SaleSummary: api.SaleSummary{Sale: "movie", Outcome: api.Standby}, Known: l.Sale.Known}
		l.Sale.Shards[1] = api.Shard{Shard: 1, State: api.ShardUnknown}
	})
	browser.Until(t, w, said+` === "movie: Unknown. This process is not ready."`)
	shows("units-of", "The figures are as of")
	shows("shards-legend", "unknown: 1")
	browser.Until(t, w, `document.querySelector("[aria-labelledby=units-h]").classList.contains("old")`)

	// The server goes away, and comes back.
	a.down.Store(true)
	a.Close()
	browser.Until(t, w, said+` === "No update. This process does not answer."`)
	shows("banners", "No update since")
	shows("live", "As of")
	browser.Until(t, w, `document.body.classList.contains("old")`)
	browser.Shoot(t, w, "no-news")
	w.Calm() // a browser complains of a server that is not there
	fresh := newGate(MostViewers)
	a.gate = fresh
	a.show(func(l *State) { l.Sale.Available, l.Sale.Sold, l.Sale.SoldOut = 0, 300, true })
	a.down.Store(false)
	browser.Until(t, w, said+` === "movie: Sold out."`)
	browser.Until(t, w, `!document.body.classList.contains("old") && document.querySelector("#banners").innerText === ""`)
	if complaints, _ := w.Calm(); len(complaints) > 0 && !strings.Contains(strings.Join(complaints, ""), "ERR_EMPTY_RESPONSE") {
		t.Errorf("the page complains: %s", strings.Join(complaints, "\n"))
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// fullIn says on the page that there are as many as may watch.
func fullIn(t *testing.T, w *browser.Window) {
	a := newActed(t)
	a.gate = newGate(1)
	a.gate.places <- struct{}{}
	browser.Go(t, w, a.url+"/dashboard/sales/movie")
	browser.Until(t, w, said+` === "No update. 1 pages show this process already, which is its limit. Close one of them."`)
	<-a.gate.places
	browser.Until(t, w, live)
}

// keysIn goes through the page by keys alone.
func keysIn(t *testing.T, w *browser.Window) {
	a := newActed(t)
	browser.Go(t, w, a.url+"/dashboard/sales/movie")
	browser.Until(t, w, live)
	at := func(want string) {
		t.Helper()
		browser.Press(t, w, kb.Tab)
		got := browser.Run(t, w, `document.activeElement.id || document.activeElement.getAttribute("aria-label") || document.activeElement.textContent`)
		if got != want {
			t.Errorf("Tab leads to %q, want %q", got, want)
		}
	}
	detail := func(keys, want string) {
		t.Helper()
		browser.Press(t, w, keys)
		if got := browser.Run(t, w, `document.querySelector("#shard-text").textContent`); !strings.HasPrefix(got, want) {
			t.Errorf("the page tells of %q, want %q", got, want)
		}
	}
	at("Skip to the sale")
	at("reach")
	at("shards")
	detail("", "Shard 0: selling; 90 for sale, 0 held, 10 sold; owned by 10.0.0.7:8080")
	detail(kb.ArrowRight, "Shard 1: selling; 100 for sale")
	detail(kb.End, "Shard 2: selling; 100 for sale, 0 held, 0 sold; owned by 10.0.0.8:8080")
	detail(kb.ArrowRight, "Shard 2")
	detail(kb.Home, "Shard 0")
	if got := browser.Run(t, w, `document.getElementById(document.querySelector("#shards").getAttribute("aria-activedescendant")).getAttribute("aria-label")`); !strings.HasPrefix(got, "Shard 0: selling") {
		t.Errorf("a screen reader is told of %q", got)
	}
	at("shards-summary")
	browser.Press(t, w, kb.Enter)
	browser.Until(t, w, `document.querySelector("#shards-table").rows.length === 4`)
	at("Table of shards")
	at("Table of processes")
	at("Table of lock nodes")
}

// hiddenIn has a page that nobody sees ask for nothing.
func hiddenIn(t *testing.T, w *browser.Window) {
	a := newActed(t)
	browser.Go(t, w, a.url+"/dashboard/sales/movie")
	browser.Until(t, w, live)
	hide := func(hidden string) {
		browser.Run(t, w, `(() => { Object.defineProperty(document, "hidden", {value: `+hidden+`, configurable: true}); document.dispatchEvent(new Event("visibilitychange")) })()`)
	}
	hide("true")
	wait.Until(t, "it takes no place", func() bool { return len(a.gate.places) == 0 })
	hide("false")
	a.show(func(l *State) { l.Sale.Phase = "paused" })
	browser.Until(t, w, said+` === "movie: Paused."`)
}

// salesIn draws the list of several sales.
func salesIn(t *testing.T, w *browser.Window) {
	d := New("", MostViewers, func() clock.Now { return clock.Now{Wall: noon, Mono: time.Hour} })
	for name, look := range map[string]State{
		"movie":   {Sale: &api.Sale{SaleSummary: api.SaleSummary{Phase: "open", Stock: 300, Available: 90, Held: 10, Sold: 200, ClosesAt: noon.Add(time.Hour)}}},
		"concert": {Sale: &api.Sale{SaleSummary: api.SaleSummary{Phase: "open", Stock: 10, Sold: 10, SoldOut: true}}},
		"lottery": {Unready: "standby: starting", Sale: &api.Sale{SaleSummary: api.SaleSummary{Outcome: api.Standby}}},
	} {
		look.Sale.Sale = name
		d.Add(Sale{name, func() State { return look }})
	}
	server := httptest.NewServer(d.Handler())
	defer server.Close()
	defer d.Close()
	browser.Width(t, w, 1280)
	browser.Go(t, w, server.URL+Path)
	browser.Until(t, w, said+` === "concert: Sold out. lottery: Unknown. movie: Open."`)
	text := browser.Run(t, w, `document.querySelector("main").innerText`)
	for _, want := range []string{"Open. Closes in 1 h 0 min, at 2026-11-11 13:00:00 UTC", "90 of 300 for sale, 10 held, 200 sold.", "Units: unknown here. This process is not ready: standby: starting."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if faults := browser.Faults(t, w); faults != "" {
		t.Error(faults)
	}
	browser.Shoot(t, w, "sales")
	if complaints, _ := w.Calm(); len(complaints) > 0 {
		t.Errorf("the page complains: %s", strings.Join(complaints, "\n"))
	}
}
