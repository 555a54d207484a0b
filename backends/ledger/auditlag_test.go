package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/payload"
	"salectl/draw"
	"salectl/spec"
)

// behind is Logs in which the first reads of one log are answered from the past.
type behind struct {
	ledger.Logs
	log   string
	past  *ledger.StoredLog // nil: it was not there
	reads int               // that lag
}

func (b *behind) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log != b.log || b.reads == 0 {
		return b.Logs.Read(ctx, log, from, max)
	}
	b.reads--
	if b.past == nil {
		return nil, nil, nil
	}
	return b.past.Head, b.past.Entries[min(from, uint64(len(b.past.Entries))):], nil
}

// An audit reads a shard again that lacks what was applied, since a read may lag, and in the end
// believes what it reads.
func TestAuditReadsAgainWhatLags(t *testing.T) {
	w := ledger.NewWorld(t)
	early := new(*w.Logs.Logs[w.Shards[1].Log()])
	w.Plan(0, 0, ledger.OpenSettings(5))
	for name, c := range map[string]struct {
		past  *ledger.StoredLog
		reads int
		want  []string
	}{
		"no log yet":                      {nil, ledger.MissingTries - 1, nil},
		"no log":                          {nil, ledger.MissingTries, []string{"shard 1 has no log"}},
		"before the second generation":    {early, ledger.MissingTries - 1, nil},
		"the second generation is missed": {early, ledger.MissingTries, []string{"shard 1 has 1 generation, 2 were applied"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, err := audit.Run(t.Context(), &behind{w.Logs, w.Shards[1].Log(), c.past, c.reads}, "test", ledger.NewState, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			missing := slices.DeleteFunc(slices.Clone(a.Problems), func(what string) bool { return !unseen(what) })
			if len(c.want) == 0 && !a.OK || !slices.Equal(missing, c.want) {
				t.Errorf("%s: %q, want %q", name, a.Problems, c.want)
			}
		})
	}
}

// unseen reports whether a problem is that a shard lacks what was applied.
func unseen(problem string) bool {
	return slices.Contains([]string{"shard 1 has no log", "shard 1 has 1 generation, 2 were applied"}, problem)
}

// So the new owner reads the log of units again.
func TestAuditReadsAgainWhatUnitsAre(t *testing.T) {
	w, _ := payloadExport(t, nil, func(*ledger.World, *payload.Reader, *bytes.Buffer) error { return nil })
	synctest.Test(t, func(t *testing.T) {
		for reads, want := range map[int]bool{ledger.MissingTries - 1: true, ledger.MissingTries: false} {
			a, err := audit.Run(t.Context(), &behind{w.Logs, spec.UnitsLog(ledger.TestUID), nil, reads}, "test", ledger.NewState, nil)
			if err != nil || a.OK != want {
				t.Errorf("%d reads lag: %v, %+v", reads, err, a)
			}
		}
	})
}

// away is Logs that return a log slot by slot, and after the first slot nothing for some reads.
type away struct {
	ledger.Logs
	log   string
	reads int // that return nothing
}

func (a *away) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	switch {
	case log != a.log:
		return a.Logs.Read(ctx, log, from, max)
	case from == 0 || a.reads == 0:
		return a.Logs.Read(ctx, log, from, 1)
	}
	a.reads--
	return nil, nil, nil
}

// A log of units that a read does not return may be behind its other reads, too.
func TestAuditReadsAgainWhatUnitsWere(t *testing.T) {
	w, _ := payloadExport(t, nil, func(*ledger.World, *payload.Reader, *bytes.Buffer) error { return nil })
	synctest.Test(t, func(t *testing.T) {
		for reads, want := range map[int]bool{ledger.MissingTries - 1: true, ledger.MissingTries: false} {
			a, err := audit.Run(t.Context(), &away{w.Logs, spec.UnitsLog(ledger.TestUID), reads}, "test", ledger.NewState, nil)
			if err != nil || a.OK != want {
				t.Errorf("%d reads return nothing: %v, %+v", reads, err, a)
			}
		}
	})
}

// And it reads a shard on again that lacks a transfer which another has seen acknowledged.
func TestAuditReadsAgainForACut(t *testing.T) {
	w := ledger.NewWorld(t)
	early := new(*w.Logs.Logs[w.Shards[1].Log()])
	w.Move(0, 1, 1, 3)
	const ack = "shard 0 has an ack of transfer 1 to shard 1, which never received it"
	synctest.Test(t, func(t *testing.T) {
		for reads, want := range map[int]bool{ledger.MissingTries: true, ledger.MissingTries + 1: false} { // the first before the cut is closed
			a, err := audit.Run(t.Context(), &behind{w.Logs, w.Shards[1].Log(), early, reads}, "test", ledger.NewState, nil)
			if err != nil || slices.Contains(a.Problems, ack) == want || a.OK != want {
				t.Errorf("%d reads lag: %v, %+v", reads, err, a)
			}
		}
	})
}

// A shard that was read on may have seen a transfer acknowledged that yet another one lacks.
func TestAuditReadsEachShardAgainForACut(t *testing.T) {
	w := ledger.NewWorld(t)
	var early [3]ledger.StoredLog
	for i := range early {
		early[i] = *w.Logs.Logs[w.Shards[i].Log()]
	}
	w.Move(1, 2, 1, 3)
	w.Move(0, 1, 1, 3)
	var logs ledger.Logs = w.Logs
	for i := 1; i <= 2; i++ {
		logs = &behind{logs, w.Shards[i].Log(), &early[i], ledger.MissingTries}
	}
	synctest.Test(t, func(t *testing.T) {
		if a, err := audit.Run(t.Context(), logs, "test", ledger.NewState, nil); err != nil || !a.OK {
			t.Errorf("%v, %+v", err, a)
		}
	})
}

// And it reads the sale's own log again that lacks the ranks by which units were awarded.
func TestAuditReadsAgainForRanks(t *testing.T) {
	w := ledger.NewDrawWorld(t, 3, nil, nil)
	for i := range w.Shards {
		w.Enter(i, 3)
	}
	w.Close()
	early := new(*w.Logs.Logs[w.Sale.Log()])
	w.Reveal(nil, 6, 3)
	w.Award(1)
	synctest.Test(t, func(t *testing.T) {
		for reads, want := range map[int]bool{ledger.MissingTries: true, ledger.MissingTries + 1: false} { // the first before the shards are read
			a, err := audit.Run(t.Context(), &behind{w.Logs, w.Sale.Log(), early, reads}, "test", ledger.NewState, nil)
			if err != nil || a.OK != want {
				t.Errorf("%d reads lag: %v, %+v", reads, err, a)
			}
		}
	})
}

// An award of one shard follows the reveal, and the reveal the entries of all shards. An audit
// reads a shard on whose log it has read before.
func TestAuditReadsAgainForEntries(t *testing.T) {
	w := ledger.NewDrawWorld(t, 3, nil, nil)
	for i := range w.Shards {
		w.Enter(i, 3)
	}
	early := *w.Logs.Logs[w.Shards[1].Log()]
	w.Enter(1, 1)
	w.Close()
	w.Reveal(nil, 6, 6)
	w.Award(1 + int64(slices.IndexFunc(w.Ranked, func(e draw.Entry) bool { return e.Shard != 1 })))
	synctest.Test(t, func(t *testing.T) {
		for reads, want := range map[int]bool{1: true, ledger.MissingTries: true, ledger.MissingTries + 1: false} { // the first before the cut is closed
			a, err := audit.Run(t.Context(), &behind{w.Logs, w.Shards[1].Log(), &early, reads}, "test", ledger.NewState, nil)
			if err != nil || a.OK != want || want && a.Draw.Entries != 10 {
				t.Errorf("%d reads lag: %v, %+v", reads, err, a)
			}
		}
	})
}

// A unit that was awarded before the reveal is found, however many shards have recorded their entries.
func TestAuditOfAnAwardBeforeTheReveal(t *testing.T) {
	for _, recorded := range []int{1, ledger.WorldShards} {
		w := ledger.NewDrawWorld(t, 3, nil, nil)
		w.Enter(0, 2)
		for i := range recorded {
			w.CloseShard(i)
		}
		d := w.Draft(0)
		if d.Award(w.Shards[0].Claim(1)).Kind != ledger.SettleDone {
			t.Fatal("nothing was awarded")
		}
		w.Commit(0, d)
		synctest.Test(t, func(t *testing.T) {
			want := fmt.Sprintf("the draw: claim %s: it has a rank or a unit, but nothing is revealed yet", w.Shards[0].Claim(1).ID(0))
			if a := mustAudit(t, w.Logs); a.OK || !slices.Equal(a.Problems, []string{want}) {
				t.Errorf("%d shards have recorded their entries: %q, want %q", recorded, a.Problems, want)
			}
		})
	}
}

// before is Logs whose first heads are from the past, and so is one log at its first read.
type before struct {
	*behind
	heads int // that lag
}

func (b *before) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	heads, err := b.behind.Heads(ctx, logs)
	if i := slices.Index(logs, b.log); i >= 0 && b.heads > 0 {
		b.heads--
		heads[i] = b.past.Head
	}
	return heads, err
}

// A rank may be due to an award that lapsed on a shard after an audit has read that shard. The
// audit learns of it from the shard's head, and reads heads again that lag.
func TestAuditReadsHeadsOfADrawAgain(t *testing.T) {
	w := ledger.NewDrawWorld(t, 3, ledger.DrawPayment, nil)
	for i := range w.Shards {
		w.Enter(i, 3)
	}
	w.Close()
	w.Reveal(nil, 6, 6)
	substitute, _ := w.Claim(4)
	first := int64(1 + slices.IndexFunc(w.Ranked, func(e draw.Entry) bool { return e.Shard != substitute }))
	w.Award(first)
	shard, c := w.Claim(first)
	early := *w.Logs.Logs[w.Shards[shard].Log()]
	d := w.Draft(shard)
	if d.Cancel(c, "ada", "").Kind != ledger.SettleDone {
		t.Fatal("nothing was cancelled")
	}
	w.Commit(shard, d)
	w.Award(4)
	synctest.Test(t, func(t *testing.T) {
		for heads, want := range map[int]bool{0: true, ledger.MissingTries - 1: true, ledger.MissingTries: false} {
			logs := &before{&behind{w.Logs, w.Shards[shard].Log(), &early, 1}, heads}
			a, err := audit.Run(t.Context(), logs, "test", ledger.NewState, nil)
			if err != nil || a.OK != want || a.Held != 2 {
				t.Errorf("%d heads lag: %v, %+v", heads, err, a)
			}
		}
	})
}

// headless is Logs whose heads cannot be read.
type headless struct{ *ledger.MemoryLogs }

func (headless) Heads(context.Context, []string) ([][]byte, error) { return nil, ledger.ErrBroken }

// A store that fails amid the audit of a draw is no problem of the ledger.
func TestAuditOfDrawWhoseHeadsCannotBeRead(t *testing.T) {
	w := ledger.NewDrawWorld(t, 3, nil, nil)
	if a, err := audit.Run(t.Context(), headless{w.Logs}, "test", ledger.NewState, nil); !errors.Is(err, ledger.ErrBroken) {
		t.Errorf("%+v, %v", a, err)
	}
}
