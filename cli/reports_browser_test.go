package cli

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"salectl/api"
	"salectl/internal/services"
	"salectl/internal/services/browser"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// reportsOf makes the reports of several commands, and returns their files by name.
func reportsOf(t *testing.T) map[string]string {
	t.Helper()
	folder := t.TempDir()
	written := func(sale, spec string) string {
		path := filepath.Join(folder, sale+".yaml")
		if err := os.WriteFile(path, []byte("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: "+sale+"}\nspec:\n"+spec), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	reports := map[string]string{}
	run := func(report string, code int, args ...string) {
		t.Helper()
		if report != "" {
			reports[report] = filepath.Join(folder, report+".html")
			args = append(args, "--report", reports[report])
		}
		c := newCapture()
		if got := c.run(append([]string{"salectl"}, args...), nil); got != code {
			t.Fatalf("%v: exit code %d, want %d\n%s", args, got, code, &c.err)
		}
	}

	movie := written("movie", "  {stock: 300, lockCount: 5, perUserLimit: 4, embedded: {}}\n")
	run("rehearsal", exitThreshold, "rehearse", "-f", movie, "--users", "2000", "--seed", "7", "--threshold", "sold==300", "--threshold", "p99<1ns")

	redis, err := services.StartRedis(t.Context(), services.RedisOptions{Dir: t.TempDir()})
	services.Require(t, err)
	t.Cleanup(redis.Stop)
	luck := written("luck", fmt.Sprintf(`  engine: redis
  stock: 500
  lockCount: 2
  units: {redPacket: {total: "1000.00", currency: CNY, split: random, min: "0.10"}}
  redis: {nodes: [%q]}
  embedded: {}
`, redis.Addr()))
	run("red-packet", 0, "rehearse", "-f", luck, "--users", "2000", "--seed", "7")

	run("", 0, "apply", "-f", movie, "--yes")
	soldBy(t, movie, "movie", 100)
	run("audit", 0, "audit", "-f", movie, "--threshold", "sold>=1")
	return reports
}

// soldBy serves a sale for so long that so many users can claim units, from one to four each.
func soldBy(t *testing.T, path, sale string, users int) {
	t.Helper()
	listen := scripts.FreeAddress(t)
	signals, ended := make(chan os.Signal, 1), make(chan int)
	served := newCapture()
	go func() {
		ended <- served.run([]string{"salectl", "serve", "-f", path, "--listen", listen, "--admin-listen", "127.0.0.1:0"}, signals)
	}()
	var up atomic.Bool
	client, err := api.NewClient(api.Config{
		Servers: []string{"http://" + listen}, Sale: sale, Timeout: wait.Limit,
		Attempted: func(a api.Attempt) bool { return !up.Load() || a.Again },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	wait.UntilNil(t, sale+" to be served", func() error {
		_, err := client.Status(t.Context())
		return err
	})
	up.Store(true)
	var g errgroup.Group
	for i := range users {
		g.Go(func() error {
			a, err := client.Claim(t.Context(), api.Request{User: fmt.Sprint("user-", i), Quantity: int64(i%4) + 1})
			if err == nil && a.Outcome != api.Sold {
				err = fmt.Errorf("user-%d is told %s", i, a.Outcome)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	signals <- syscall.SIGTERM
	if code := <-ended; code != 0 {
		t.Fatalf("serve: exit code %d\n%s", code, &served.err)
	}
}

// cut are the parts of a page that the window is too narrow for, and that no frame scrolls.
const cut = `[...document.querySelectorAll("body *")].
	filter(e => e.checkVisibility() && !e.closest(".scroll") && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).
	concat(document.documentElement.scrollWidth > document.documentElement.clientWidth ? [document.documentElement] : []).
	map(e => e.outerHTML.slice(0, 120)).join("\n")`

// emptyTables are the tables without a row, and charts without numbers beside them.
const emptyTables = `[...document.querySelectorAll("table")].filter(e => e.tHead === null || e.querySelectorAll("tbody tr").length === 0).
	concat([...document.querySelectorAll("figure")].filter(e => !e.querySelector("details table"))).
	map(e => e.outerHTML.slice(0, 120)).join("\n")`

// TestReportsInABrowser opens reports as people do, on a screen and on a telephone, by day and
// by night. The pictures are among the test's artifacts.
func TestReportsInABrowser(t *testing.T) {
	w := browser.Open(t)
	for name, file := range reportsOf(t) {
		t.Run(name, func(t *testing.T) {
			address := (&url.URL{Scheme: "file", Path: file}).String()
			browser.Width(t, w, 1280)
			browser.Go(t, w, address)
			for _, width := range []int64{360, 1280} {
				browser.Width(t, w, width)
				for _, scheme := range []string{"light", "dark"} {
					browser.Prefer(t, w, "prefers-color-scheme", scheme)
					for _, open := range []bool{true, false} { // the tables of the charts
						browser.Run(t, w, fmt.Sprintf(`document.querySelectorAll("details").forEach(e => e.open = %v)`, open))
						if parts := browser.Run(t, w, cut); parts != "" {
							t.Errorf("%d pixels are too narrow for\n%s", width, parts)
						}
						if faults := browser.Faults(t, w); faults != "" {
							t.Errorf("%s, %d pixels:\n%s", scheme, width, faults)
						}
					}
					browser.Shoot(t, w, fmt.Sprintf("%s-%d-%s", name, width, scheme))
				}
			}
			if tables := browser.Run(t, w, emptyTables); tables != "" {
				t.Errorf("tables with nothing in them, or charts without one:\n%s", tables)
			}
			// A chart has its name, and its numbers for those who do not see it.
			browser.Run(t, w, `document.querySelectorAll("details").forEach(e => e.open = true)`)
			roles, unnamed := browser.Roles(t, w)
			unnamed = slices.DeleteFunc(unnamed, func(role string) bool { return role == "group" }) // details, which their summaries name
			if len(unnamed) > 0 {
				t.Errorf("a screen reader has no name for %q", unnamed)
			}
			if charts := roles["image"] + roles["img"]; charts < 3 || fmt.Sprint(charts) != browser.Run(t, w, `document.querySelectorAll("figure").length`) || roles["table"] < charts+1 {
				t.Errorf("a screen reader meets %v", roles)
			}
			complaints, addresses := w.Calm()
			if len(complaints) > 0 {
				t.Errorf("the page complains: %s", strings.Join(complaints, "\n"))
			}
			if len(addresses) != 1 || addresses[0] != address {
				t.Errorf("the page asks for %q", addresses)
			}
		})
	}
}
