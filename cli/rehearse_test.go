package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends"
	"salectl/backends/embedded"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/spec"
)

// A rehearsal that was killed is removed by the next one, unless somebody still
// serves it or it has only just begun.
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
	list := rehearsalsOf(store.Logs, "tickets")

	old, young := c.leave(t, store, list, sales[0], time.Now().Add(-time.Hour)), c.leave(t, store, list, sales[0], time.Now())
	if code := c.run([]string{"salectl", "rehearse", "-f", path, "--users", "50", "--json"}, nil); code != 0 {
		t.Fatalf("exit code %d\n%s", code, &c.err)
	}
	if exists(t, store.Logs, old) {
		t.Errorf("%s is still there", old)
	}
	if !exists(t, store.Logs, young) {
		t.Errorf("%s is gone, and may be in use", young)
	}
	var left []string
	err = list.change(t.Context(), func(live []rehearsalRun) ([]rehearsalRun, bool) {
		for _, run := range live {
			left = append(left, run.Name)
		}
		return nil, false
	})
	if err != nil || !slices.Equal(left, []string{young}) {
		t.Errorf("the list has %q (%v), want %q", left, err, young)
	}
	if !exists(t, store.Logs, "tickets") {
		t.Error("the sale itself is gone")
	}
}

// leave does what a rehearsal does until it is killed.
func (c *capture) leave(t *testing.T, store *backends.Store, list *rehearsals, sale spec.Sale, since time.Time) string {
	t.Helper()
	sale.Name = list.name()
	if _, err := list.add(t.Context(), sale.Name, since); err != nil {
		t.Fatal(err)
	}
	cfg := c.planning(store)
	actual, err := planner.ReadActual(t.Context(), cfg, sale.Name)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := planner.Make(sale, actual)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planner.Apply(t.Context(), cfg, plan); err != nil {
		t.Fatal(err)
	}
	return sale.Name
}

func exists(t *testing.T, logs ledger.Logs, sale string) bool {
	t.Helper()
	heads, err := logs.Heads(t.Context(), []string{spec.SaleLog(sale)})
	if err != nil {
		t.Fatal(err)
	}
	return heads[0] != nil
}

// lossy loses every first of three appends, and of every second the answer.
type lossy struct {
	ledger.Logs
	appends int
}

var errLost = errors.New("nobody knows what became of it")

func (l *lossy) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	l.appends++
	if l.appends%3 == 1 {
		return errLost
	}
	err := l.Logs.Append(ctx, log, slot, prev, head, entry)
	if l.appends%3 == 2 {
		return errLost
	}
	return err
}

// The list of rehearsals is right whatever appends say of themselves.
func TestRehearsalsListSurvivesLostAnswers(t *testing.T) {
	logs, err := embedded.OpenLogs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	list := rehearsalsOf(&lossy{Logs: logs}, "tickets")
	for i, name := range []string{"a", "b", "c"} {
		before, err := list.add(t.Context(), name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if len(before) != i {
			t.Errorf("before %s there were %v", name, before)
		}
	}
	for range 2 { // striking out what is struck out is no error
		if err := list.strike(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
	before, err := list.add(t.Context(), "d", time.Now())
	if err != nil || len(before) != 2 || before[0].Name != "a" || before[1].Name != "c" {
		t.Errorf("the list has %v, %v", before, err)
	}
}

func TestRehearsalNames(t *testing.T) {
	list := rehearsalsOf(nil, strings.Repeat("n", 63))
	name := list.name()
	if len(name) > 63 || name != strings.ToLower(name) || !strings.HasPrefix(name, planner.RehearsalPrefix) {
		t.Errorf("%s is no name that purge takes", name)
	}
	if name == list.name() {
		t.Error("two rehearsals have one name")
	}
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
