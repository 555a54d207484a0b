// Package dashboard serves web pages that show operators running sales. A page updates its figures
// once a second.
//
// Observation costs little. A sale is queried once a second for the charts and for all viewers of its
// page. The number of viewers is limited, and a viewer that does not read its events is disconnected.
// A Dashboard shows the results of Sale.State and queries nothing else. Access control is left to the
// caller that serves its Handler.
package dashboard

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"salectl/backends/clock"
)

// Path is the prefix of all pages.
const Path = "/dashboard/"

// MostViewers is the limit of concurrent viewers of a process.
const MostViewers = 32

// Sale is a sale to show. State must be safe for concurrent use: the sale's page and that of all sales
// each call it at most once a second.
type Sale struct {
	Name  string
	State func() State
}

// Dashboard serves the pages of some sales.
type Dashboard struct {
	process string
	clock   clock.Clock
	began   time.Duration // monotonic
	all     *feed
	gate    gate

	mu    sync.Mutex
	sales []shown // sorted by name; replaced as a whole
}

// shown is a sale with the feed of its page.
type shown struct {
	Sale
	feed *feed
}

//go:embed web
var web embed.FS

var templates = template.Must(template.ParseFS(web, "web/*.html"))

// New returns a Dashboard of no sale for at most some viewers at a time. process is the address of this
// process at its peers; "": none. It starts no goroutine: Record and requests of viewers do the work.
func New(process string, viewers int, clock clock.Clock) *Dashboard {
	d := &Dashboard{process: process, clock: clock, began: clock().Mono, gate: newGate(viewers)}
	d.all = newFeed(clock, d.began, d.event)
	return d
}

// Record observes the sales once a second until ctx ends, so that charts include the time before the
// first viewer.
func (d *Dashboard) Record(ctx context.Context) {
	for {
		next := every
		for _, s := range d.listed() {
			next = s.feed.observe()
		}
		select {
		case <-time.After(next):
		case <-ctx.Done():
			return
		}
	}
}

// Add adds a sale.
func (d *Dashboard) Add(s Sale) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sales = append(slices.Clone(d.sales), shown{s, newFeed(d.clock, d.began, (&watch{process: d.process, state: s.State}).event)})
	slices.SortFunc(d.sales, func(a, b shown) int { return strings.Compare(a.Name, b.Name) })
}

// Remove removes a sale and ends the streams of its viewers.
func (d *Dashboard) Remove(sale string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sales = slices.DeleteFunc(slices.Clone(d.sales), func(s shown) bool {
		if s.Name == sale {
			close(s.feed.over)
		}
		return s.Name == sale
	})
}

// listed returns all sales, by name.
func (d *Dashboard) listed() []shown {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sales
}

// named returns the feed of a sale, nil if it is not shown, and the names of all shown sales.
func (d *Dashboard) named(sale string) (of *feed, names []string) {
	for _, s := range d.listed() {
		names = append(names, s.Name)
		if s.Name == sale {
			of = s.feed
		}
	}
	return of, names
}

// Close ends the streams of all viewers. Later streams end at once.
func (d *Dashboard) Close() { d.gate.close() }

// Handler returns a handler for all paths below Path.
func (d *Dashboard) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"{$}", func(w http.ResponseWriter, r *http.Request) {
		_, names := d.named("")
		if len(names) == 1 {
			http.Redirect(w, r, Path+"sales/"+names[0], http.StatusFound)
			return
		}
		d.show(w, r, "sales.html", page{Sales: names})
	})
	mux.HandleFunc("GET "+Path+"events", func(w http.ResponseWriter, r *http.Request) { d.watch(w, r, d.all) })
	of := func(serve func(w http.ResponseWriter, r *http.Request, sale *feed)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			sale, _ := d.named(r.PathValue("sale"))
			if sale == nil {
				http.Error(w, "This process serves no sale of this name.", http.StatusNotFound)
				return
			}
			serve(w, r, sale)
		}
	}
	mux.HandleFunc("GET "+Path+"sales/{sale}", of(func(w http.ResponseWriter, r *http.Request, _ *feed) {
		_, names := d.named("")
		d.show(w, r, "sale.html", page{Name: r.PathValue("sale"), Sales: names})
	}))
	mux.HandleFunc("GET "+Path+"sales/{sale}/events", of(d.watch))
	mux.HandleFunc("GET "+Path+"{file}", func(w http.ResponseWriter, r *http.Request) {
		file := r.PathValue("file")
		if path.Ext(file) == ".html" { // a template
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", noCache)
		http.ServeFileFS(w, r, web, "web/"+file)
	})
	return guarded(mux)
}

// page is the data of a page template.
type page struct {
	Name  string   // of the sale; "": the page of all sales
	Sales []string // all names
}

func (d *Dashboard) show(w http.ResponseWriter, r *http.Request, name string, p page) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, p); err != nil {
		panic(err) // unreachable: it is embedded
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", noCache)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.Bytes()))
}

const noCache = "no-cache" // another version of the program has other files

// policy permits a page to load what this server serves, and nothing else: no inline script or
// style. It forbids framing by other sites.
var policy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:",
	"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
}, "; ")

// guarded sets security headers and rejects requests that pages of other sites send, which could
// occupy all places of viewers.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "same-origin", "none": // no browser; this page; a typed address
		default:
			if r.Header.Get("Sec-Fetch-Mode") != "navigate" { // a link in a chat may lead here
				http.Error(w, "Web pages of other sites may not send this request.", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
