package cli

import (
	"strings"
	"testing"
	"time"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
)

// A rehearsal that was killed is removed by the next one, unless somebody still serves it or it has
// only just begun.
func TestRehearsalRemovesWhatAKilledOneLeft(t *testing.T) {
	path := applySale(t, "tickets")
	sales, err := spec.Load([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := backends.Open(sales[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := newCapture()
	const sale = "rehearsal-20261127"
	young := apply.CopyName("tickets")
	for _, name := range []string{young, sale} {
		c.leave(t, store, sales[0], name)
	}
	listed := func() string {
		t.Helper()
		c.out.Reset()
		if code := c.run([]string{"salectl", "list", "-f", path, "--json"}, nil); code != 0 {
			t.Errorf("list: exit code %d\n%s", code, &c.err)
		}
		var all []string
		for _, one := range strings.Split(c.out.String(), `"sale":"`)[1:] {
			all = append(all, one[:strings.IndexByte(one, '"')])
		}
		return strings.Join(all, " ")
	}
	if got := listed(); got != sale+" tickets" {
		t.Errorf("before the rehearsal, list has %q", got)
	}
	for _, old := range []bool{false, true} {
		age := time.Hour
		if old {
			age = 0
		}
		if err := apply.RemoveCopies(t.Context(), c.planning(store), "tickets", age); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{young: !old, sale: true, "tickets": true} {
			if got := exists(t, store.Logs, name); got != want {
				t.Errorf("of any age: %v: there is a log of %s: %v, want %v", old, name, got, want)
			}
		}
	}
	if code := c.run([]string{"salectl", "rehearse", "-f", path, "--users", "50", "--json"}, nil); code != 0 {
		t.Fatalf("exit code %d\n%s", code, &c.err)
	}
	if got := listed(); got != sale+" tickets" {
		t.Errorf("after the rehearsal, list has %q", got)
	}
}

// leave does what a rehearsal does until it is killed.
func (c *capture) leave(t *testing.T, store *backends.Store, sale spec.Sale, name string) {
	t.Helper()
	sale.Name = name
	cfg := c.planning(store)
	actual, err := current.Read(t.Context(), cfg.Backends, sale.Name)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := planner.Make(sale, actual)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := apply.Run(t.Context(), cfg, plan); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, logs ledger.Logs, sale string) bool {
	t.Helper()
	heads, err := logs.Heads(t.Context(), []string{spec.SaleLog(sale)})
	if err != nil {
		t.Fatal(err)
	}
	return heads[0] != nil
}

// Without its rules a draw is still a draw.
func TestDrawWithoutRules(t *testing.T) {
	sale := spec.Sale{
		Name: "trainers", Queue: &spec.Queue{Order: spec.OrderDraw, Depth: 7}, Draw: &spec.Draw{},
		Users: &spec.Users{Table: new(spec.UsersTable)},
	}
	withoutRules(&sale)
	if sale.Users != nil || sale.Queue == nil || sale.Queue.Order != spec.OrderDraw || sale.Queue.Depth != 7 {
		t.Errorf("the copy has users %v and the queue %v", sale.Users, sale.Queue)
	}
}
