package ledger_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/internal/wait"
	"salectl/spec"
	"salectl/units"
)

// mustKey returns a key of so many equal bytes.
func mustKey(t *testing.T, b byte) *units.Key {
	t.Helper()
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
	source, err := units.ForSale(spec.Sale{Units: &spec.Units{File: "codes.csv", FromFile: true, Secret: true, KeyEnv: "KEY"}},
		func(string) (string, bool) { return secret, true })
	if err != nil {
		t.Fatal(err)
	}
	return source.Key()
}

// payloadWorld is a log of units, and the sale's plans as a reader gets them.
type payloadWorld struct {
	t     *testing.T
	logs  *ledger.MemoryLogs
	fold  *payload.Log
	head  []byte
	key   *units.Key
	added []ledger.Added
}

func newPayloadWorld(t *testing.T, key *units.Key) *payloadWorld {
	return &payloadWorld{t: t, logs: &ledger.MemoryLogs{Logs: make(map[string]*ledger.StoredLog)}, fold: payload.NewLog(spec.UnitsLog(ledger.TestUID)), key: key}
}

// store stores units of a plan.
func (w *payloadWorld) store(plan byte, first int64, names ...string) error {
	w.t.Helper()
	var us []units.Unit
	for _, name := range names {
		us = append(us, units.Unit{Name: name, Attributes: []string{strings.ToLower(name)}})
	}
	op, err := payload.Seal(w.key, rand.Reader, w.fold.Log(), ledger.Hash{plan}, first, []string{"code", "small"}, us)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.append(op)
}

func (w *payloadWorld) append(op *pb.Payload) error {
	w.t.Helper()
	e, err := w.fold.Entry([]byte("writer"), 7, op)
	if err != nil {
		return err
	}
	if err := w.logs.Append(w.t.Context(), w.fold.Log(), w.fold.Next(), w.head, e.Head, e.Bytes); err != nil {
		w.t.Fatal(err)
	}
	w.head = e.Head
	if err := w.fold.Apply(e.Commit, e.Hash); err != nil {
		w.t.Fatal(err)
	}
	return nil
}

func (w *payloadWorld) mustStore(plan byte, first int64, names ...string) {
	w.t.Helper()
	if err := w.store(plan, first, names...); err != nil {
		w.t.Fatal(err)
	}
}

// reader is one of a process that has just begun.
func (w *payloadWorld) reader() *payload.Reader {
	r := payload.NewReader(w.logs, ledger.TestUID, w.key)
	r.Follow(w.added)
	return r
}

func (w *payloadWorld) want(r *payload.Reader, unit int64, name string) {
	w.t.Helper()
	got, err := r.Read(w.t.Context(), []int64{unit})
	want := map[string]string{"code": name, "small": strings.ToLower(name)}
	if err != nil || fmt.Sprint(got[0].Map()) != fmt.Sprint(want) {
		w.t.Errorf("unit %d is %v: %v, not %v", unit, got, err, want)
	}
}

// Two processes carry out one plan, a third another plan for the same numbers that comes to
// nothing; then a plan follows.
func TestPayloadsOfSeveralPlans(t *testing.T) {
	for name, key := range map[string]*units.Key{"public": nil, "sealed": mustKey(t, 1)} {
		t.Run(name, func(t *testing.T) {
			w := newPayloadWorld(t, key)
			w.mustStore(1, 1, "A", "B")
			w.mustStore(2, 1, "X", "Y", "Z") // the plan that another was faster than
			w.mustStore(1, 1, "A", "B")      // once more
			w.mustStore(1, 3, "C")
			w.mustStore(1, 2, "B", "C") // in other parts
			w.mustStore(3, 4, "D", "E")
			if got := []int64{w.fold.Stored(ledger.Hash{1}), w.fold.Stored(ledger.Hash{2}), w.fold.Stored(ledger.Hash{3}), w.fold.Stored(ledger.Hash{4})}; !slices.Equal(got, []int64{4, 4, 6, 0}) {
				t.Errorf("stored are units before %v", got)
			}
			w.added = []ledger.Added{{ledger.Hash{1}, ledger.Range{1, 3}}, {ledger.Hash{3}, ledger.Range{4, 2}}}
			r := w.reader()
			if _, ok := r.Kept([]int64{1}); ok {
				t.Error("what was never read is kept")
			}
			for unit, name := range []string{"A", "B", "C", "D", "E"} {
				w.want(r, int64(unit+1), name)
			}
			if got, ok := r.Kept([]int64{5, 1}); !ok || got[0].Values[0] != "E" || got[1].Values[0] != "A" {
				t.Errorf("kept is %v, %v", got, ok)
			}
			var all []string
			err := w.reader().EachUnit(t.Context(), 1, func(number int64, u units.Unit) error {
				all = append(all, fmt.Sprint(number, u.Name))
				return nil
			})
			if err != nil || strings.Join(all, " ") != "1A 2B 3C 4D 5E" {
				t.Errorf("all units are %v: %v", all, err)
			}
		})
	}
}

func TestPayloadsThatDoNotFollow(t *testing.T) {
	for name, op := range map[string]*pb.Payload{
		"a gap":           {Plan: bytes.Repeat([]byte{1}, 32), First: 4, Count: 1, Columns: []string{"code"}},
		"other columns":   {Plan: bytes.Repeat([]byte{1}, 32), First: 3, Count: 1, Columns: []string{"code", "row"}},
		"another key":     {Plan: bytes.Repeat([]byte{1}, 32), First: 3, Count: 1, Columns: []string{"code"}, Key: "k"},
		"no units":        {Plan: bytes.Repeat([]byte{1}, 32), First: 3, Columns: []string{"code"}},
		"no plan":         {First: 3, Count: 1, Columns: []string{"code"}},
		"a unit below 1":  {Plan: bytes.Repeat([]byte{2}, 32), First: 0, Count: 1},
		"beyond counting": {Plan: bytes.Repeat([]byte{2}, 32), First: 1<<63 - 1, Count: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPayloadWorld(t, nil)
			if err := w.append(&pb.Payload{Plan: bytes.Repeat([]byte{1}, 32), First: 1, Count: 2, Columns: []string{"code"}}); err != nil {
				t.Fatal(err)
			}
			if err := w.append(op); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

// The error for a unit without a readable payload has the reason.
func TestPayloadThatCannotBeRead(t *testing.T) {
	w := newPayloadWorld(t, mustKey(t, 1))
	w.mustStore(1, 1, "SECRET")
	w.added = []ledger.Added{{ledger.Hash{1}, ledger.Range{1, 2}}}
	other, none := payload.NewReader(w.logs, ledger.TestUID, mustKey(t, 2)), payload.NewReader(w.logs, ledger.TestUID, nil)
	other.Follow(w.added)
	none.Follow(w.added)
	for name, test := range map[string]struct {
		r    *payload.Reader
		unit int64
		want string
	}{
		"another key":    {other, 1, "not with the given key " + mustKey(t, 2).ID()},
		"no key":         {none, 1, "no key is given"},
		"not stored":     {w.reader(), 2, "it is not stored"},
		"of no plan":     {w.reader(), 3, "no plan has added it"},
		"a plan unheard": {payload.NewReader(w.logs, ledger.TestUID, w.key), 1, "no plan has added it"},
	} {
		_, err := test.r.Read(t.Context(), []int64{test.unit})
		if !errors.Is(err, payload.ErrUnreadable) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An export has the payloads of a claim's units, but no secret that its buyer has not received.
func TestExportPayloads(t *testing.T) {
	w := ledger.NewWorld(t)
	payloads := newPayloadWorld(t, mustKey(t, 1))
	var names []string
	for unit := range int64(30) {
		names = append(names, fmt.Sprint("CODE", unit+1))
	}
	payloads.mustStore(1, 1, names...)
	payloads.added = []ledger.Added{{ledger.Hash{1}, ledger.Range{1, 30}}}
	w.Sell(2, 0)
	d := w.Draft(1)
	w.Commit(1, d)
	var to bytes.Buffer
	if err := (export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads.reader()}).Write(t.Context(), &to); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(to.String(), `"units":[1,2],"payloads":[{"code":"CODE1","small":"code1"},{"code":"CODE2","small":"code2"}]`) {
		t.Errorf("the export has no payloads:\n%s", to.String()[:600])
	}
	if a := mustAuditExport(t, to.Bytes()); !a.OK {
		t.Errorf("an audit of the export: %q", a.Problems)
	}
	if err := (export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads.reader()}).Check(t.Context(), bytes.NewReader(to.Bytes())); err != nil {
		t.Error(err)
	}
	altered := strings.Replace(to.String(), "CODE2", "CODE3", 1)
	if err := (export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads.reader()}).Check(t.Context(), strings.NewReader(altered)); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("an altered payload passes: %v", err)
	}
	for state, disclosed := range map[ledger.ClaimState]bool{ledger.StateSold: true, ledger.StateRefunded: true, ledger.StateHeld: false, ledger.StateExpired: false, ledger.StateCancelled: false} {
		got, err := payloads.reader().OfClaim(t.Context(), ledger.Claim{State: state, Units: []int64{1}})
		if err != nil || (len(got) > 0) != disclosed {
			t.Errorf("of a claim that is %v: %v, %v", state, got, err)
		}
	}
}

// An audit names the units of which it is not stored what they are. What other plans have stored
// for their numbers does not count.
func TestAuditMissesPayloads(t *testing.T) {
	w := newPayloadWorld(t, mustKey(t, 1))
	w.mustStore(1, 1, "A", "B")
	w.mustStore(2, 1, "X", "Y", "Z")
	w.mustStore(3, 4, "D", "E")
	log := w.fold
	r, _ := audit.NewRecount("test", ledger.TestUID, 1, ledger.NewState)
	r.Payloads(log, []ledger.Added{{ledger.Hash{1}, ledger.Range{1, 3}}, {ledger.Hash{3}, ledger.Range{4, 2}}, {ledger.Hash{4}, ledger.Range{6, 2}}})
	want := []string{"units [3] are in the sale, but their payloads are not stored", "units [6-7] are in the sale, but their payloads are not stored"}
	if !slices.Equal(r.Problems, want) {
		t.Errorf("problems are %q", r.Problems)
	}
	r, _ = audit.NewRecount("test", ledger.TestUID, 1, ledger.NewState)
	if r.Payloads(log, []ledger.Added{{ledger.Hash{1}, ledger.Range{1, 2}}, {ledger.Hash{3}, ledger.Range{4, 2}}}); len(r.Problems) > 0 {
		t.Errorf("all is stored, and problems are %q", r.Problems)
	}
}

// heldLogs holds reads until it is let go.
type heldLogs struct {
	ledger.Logs
	begun, let chan struct{}
}

func (l heldLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	l.begun <- struct{}{}
	<-l.let
	return l.Logs.Read(ctx, log, from, max)
}

// Nobody waits for the read of another for longer than their own context.
func TestPayloadsAreNotWaitedForForever(t *testing.T) {
	w := newPayloadWorld(t, nil)
	w.mustStore(1, 1, "A", "B")
	held := heldLogs{w.logs, make(chan struct{}, 9), make(chan struct{})}
	r := payload.NewReader(held, ledger.TestUID, nil)
	r.Follow([]ledger.Added{{ledger.Hash{1}, ledger.Range{1, 2}}})
	first := make(chan error)
	go func() {
		_, _, err := r.Numbers(t.Context(), []string{"A"})
		first <- err
	}()
	<-held.begun
	for name, call := range map[string]func(context.Context) error{
		"Read":    func(ctx context.Context) error { _, err := r.Read(ctx, []int64{1}); return err },
		"Numbers": func(ctx context.Context) error { _, _, err := r.Numbers(ctx, []string{"B"}); return err },
		"CatchUp": r.CatchUp,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- call(ctx) }()
		cancel()
		select {
		case err := <-got:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(wait.Limit):
			t.Fatalf("%s waits though nobody waits for it", name)
		}
	}
	close(held.let)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// Others read what single units are while somebody reads what all are.
func TestReadBetweenSlots(t *testing.T) {
	w := newPayloadWorld(t, mustKey(t, 1))
	w.mustStore(1, 1, "A", "B")
	w.mustStore(1, 3, "C")
	w.added = []ledger.Added{{ledger.Hash{1}, ledger.Range{1, 3}}}
	r := w.reader()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := r.EachUnit(t.Context(), 1, func(number int64, _ units.Unit) error {
			if number == 1 {
				w.want(r, 3, "C")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-done:
	case <-time.After(wait.Limit):
		t.Fatal("who reads one unit waits for who reads all")
	}
}
