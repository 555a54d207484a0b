package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Window is a browser that records the complaints of its pages and the addresses that they request.
type Window struct {
	context.Context

	mu         sync.Mutex
	complaints []string
	requested  []string
}

// Open is Start, with notes taken.
func Open(t testing.TB) *Window {
	t.Helper()
	w := new(Window)
	w.Context = Start(t, chromedp.WithListener(func(event any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			text, _ := json.Marshal(e.Args)
			w.complaints = append(w.complaints, string(e.Type)+" "+string(text))
		case *runtime.EventExceptionThrown:
			text, _ := json.Marshal(e.ExceptionDetails)
			w.complaints = append(w.complaints, string(text))
		case *cdplog.EventEntryAdded: // a policy that is violated, a file that is not there
			w.complaints = append(w.complaints, e.Entry.Text+" "+e.Entry.URL)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "data:") {
				w.requested = append(w.requested, e.Request.URL)
			}
		}
	}))
	return w
}

// Calm returns the complaints of pages since it was last called, and the addresses requested by
// them and by whoever opened them.
func (w *Window) Calm() (complaints, addresses []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	complaints, addresses = w.complaints, w.requested
	w.complaints, w.requested = nil, nil
	return complaints, addresses
}

//go:embed accessible.js
var accessible string

// Faults returns what keeps people from reading the page, a line for each fault: "" if nothing
// does.
func Faults(t testing.TB, browser context.Context) string {
	t.Helper()
	return Run(t, browser, accessible)
}

// Roles returns the number of parts of the page that a screen reader announces, by role, and the
// roles of those that lack a required name.
func Roles(t testing.TB, browser context.Context) (roles map[string]int, unnamed []string) {
	t.Helper()
	tree, err := chromedp.Call(browser, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	text := func(v *accessibility.Value) string {
		var s string
		if v != nil {
			_ = json.Unmarshal(v.Value, &s) // some are no strings
		}
		return s
	}
	roles = make(map[string]int)
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role := text(n.Role)
		roles[role]++
		switch role {
		case "image", "img", "link", "listbox", "option", "group", "table", "region", "navigation", "heading", "DisclosureTriangle":
			if text(n.Name) == "" {
				unnamed = append(unnamed, role)
			}
		}
	}
	return roles, unnamed
}
